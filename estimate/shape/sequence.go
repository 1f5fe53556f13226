package shape

// sequenceRoom has the operators on lists of tensors.
var sequenceRoom = room{"", []op{}}
