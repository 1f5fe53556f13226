package forge

import (
	"errors"
	"os"
	"strings"
	"unicode/utf8"
)

// MaxSummary is how many bytes a step's summary may have: GitHub drops a longer one as a whole.
const MaxSummary = 1 << 20

// SummaryRoom returns how many bytes a step's summary can still take.
func SummaryRoom(path string) int64 {
	st, err := os.Stat(path)
	if err != nil {
		return MaxSummary
	}
	return max(MaxSummary-st.Size(), 0)
}

// AppendSummary adds to a step's summary, cut at a line where it would be too long.
func AppendSummary(path, text string) error {
	if room := SummaryRoom(path); int64(len(text)) > room {
		text = text[:room]
		text = text[:strings.LastIndexByte(text, '\n')+1]
	}
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "?")
	}
	return Append(path, text)
}

// Append adds text to a file in which a step of a job leaves something to others. Where only a part could be written,
// the file is left as it was: half a line would be read as another one.
func Append(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		return err
	}
	before, err := f.Stat()
	if err == nil {
		if _, err = f.WriteString(text); err != nil && before.Mode().IsRegular() {
			err = errors.Join(err, f.Truncate(before.Size()))
		}
	}
	return errors.Join(err, f.Close())
}
