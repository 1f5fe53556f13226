// Package budget holds estimates against what a repository allows.
package budget
