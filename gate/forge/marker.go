package forge

// MaxComment is how many characters a comment may have on GitHub. GitLab takes more.
const MaxComment = 65536

// Marker is the first line of the comment that is kept up to date; a key tells several apart.
func Marker(key string) string {
	if key == "" {
		return "<!-- memestimate -->"
	}
	return "<!-- memestimate " + key + " -->"
}
