//go:build !unix && !js

package main

import "os"

// own reports whether a folder is there: on these systems a user's folder for caches is in the user's profile.
func own(folder string) bool {
	st, err := os.Stat(folder)
	return err == nil && st.IsDir()
}
