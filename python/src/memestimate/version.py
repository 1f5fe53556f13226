"""The version of the package, which is that of the program it brings."""

VERSION = "0.1.0"
