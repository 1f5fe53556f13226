package shape

// controlRoom has the operators whose bodies are graphs.
var controlRoom = room{"", []op{}}
