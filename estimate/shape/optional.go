package shape

// optionalRoom has the operators on values that may be missing.
var optionalRoom = room{"", []op{}}
