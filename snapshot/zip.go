package snapshot

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
)

// zipped is what a zip archive is read from: its list of files comes last.
type zipped interface {
	io.ReaderAt
	Stat() (fs.FileInfo, error)
}

// maxDirectory bounds the list of files of a zip archive, in bytes. torch.save
// writes four files beside those of tensors.
const maxDirectory = 1 << 20

// openZip opens the one pickle of a zip archive: a snapshot that somebody packed,
// or gave to torch.save.
func openZip(f zipped) (io.Reader, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	n, err := directorySize(f, info.Size())
	if err != nil {
		return nil, err
	}
	if n > maxDirectory {
		return nil, fmt.Errorf("a list of files of %d bytes, more than %d", n, maxDirectory)
	}
	z, err := zip.NewReader(f, info.Size())
	if err != nil {
		return nil, err
	}
	var found *zip.File
	for _, x := range z.File {
		name := strings.TrimSuffix(x.Name, ".gz")
		if !strings.HasSuffix(name, ".pkl") && !strings.HasSuffix(name, ".pickle") || strings.HasPrefix(x.Name, "__MACOSX/") {
			continue
		}
		if found != nil {
			return nil, errors.New("several pickles; unpack the one that is the snapshot")
		}
		found = x
	}
	if found == nil {
		return nil, errors.New("no file in it ends in .pickle or .pkl")
	}
	return found.Open()
}

// directorySize is the size of the list of files that the end of the archive
// gives: of its record "PK56", or of "PK66" in archives of the 64 bit kind.
func directorySize(f io.ReaderAt, size int64) (int64, error) {
	end := make([]byte, min(size, 1<<16+100))
	if _, err := f.ReadAt(end, size-int64(len(end))); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	if i := bytes.LastIndex(end, []byte("PK\x06\x06")); i >= 0 && len(end)-i >= 48 {
		return int64(min(binary.LittleEndian.Uint64(end[i+40:]), 1<<62)), nil
	}
	if i := bytes.LastIndex(end, []byte("PK\x05\x06")); i >= 0 && len(end)-i >= 16 {
		return int64(binary.LittleEndian.Uint32(end[i+12:])), nil
	}
	return 0, errors.New("it has no end: not all of it is there")
}
