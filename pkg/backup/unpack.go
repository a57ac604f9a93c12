package backup

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
)

// The first bytes of the forms of data.
var magics = []struct{ form, magic string }{
	{Gzip, "\x1f\x8b"},
	{Zstd, "\x28\xb5\x2f\xfd"},
	{Age, "age-encryption.org/v1\n"},
}

// MagicSize is how many bytes Form checks.
const MagicSize = 22

// Form determines from the first bytes of some data whether it is Gzip, Zstd or Age.
// It is empty for anything else, such as a database.
func Form(head []byte) string {
	for _, m := range magics {
		if bytes.HasPrefix(head, []byte(m.magic)) {
			return m.form
		}
	}
	return ""
}

// Of a snapshot of unknown size this much is always let through, and above it
// maxRatio bytes for each one of the object. A database that is mostly empty
// pages compresses well, too.
var freeBytes int64 = 256 << 20

const maxRatio = 100

// unpack writes the snapshot in an object to w, and checks it against all that
// want says. It returns want, with what was found out. Abort makes r fail.
func (o FetchOptions) unpack(r io.Reader, abort func(), want Description, w io.Writer) (Description, error) {
	in := newMeter(r)
	in.limit = want.Object.Size
	got := want
	plain, closing, err := o.layers(in, &got)
	if err != nil {
		return want, in.explain(err)
	}
	defer closing()
	if want.Format > 0 && (got.Compression != want.Compression || got.Encryption != want.Encryption) {
		return want, damagedf("its data is %s, its description says %s", formText(got), formText(want))
	}
	out := &gate{w: w, in: in, content: newContent(), want: want.Content.Size, max: o.MaxBytes, progress: o.Progress}
	readErr, useErr := pump(plain, abort, out.write)
	if useErr != nil {
		return want, useErr
	}
	if readErr != nil {
		return want, in.explain(readErr)
	}
	if got.Content, err = out.content.finish(); err != nil {
		return want, err
	}
	got.Object = in.digest()
	if want.Format == 0 {
		return got, nil
	}
	if err := want.Object.compare("object", got.Object); err != nil {
		return want, err
	}
	return got, want.Content.compare("content", got.Content)
}

func formText(d Description) string {
	if d.Encryption != "" {
		return d.Compression + " in " + d.Encryption
	}
	return d.Compression
}

// compare reports how what was found differs from d.
func (d Digest) compare(what string, got Digest) error {
	switch {
	case got.Size != d.Size:
		return damagedf("its %s has %d bytes, its description says %d", what, got.Size, d.Size)
	case got.SHA256 != d.SHA256:
		return damagedf("the SHA-256 of its %s is not what its description says", what)
	}
	return nil
}

// layers returns a reader of the snapshot in an object, which reads the object
// to its end, and returns what the object is made of.
func (o FetchOptions) layers(in io.Reader, d *Description) (r io.Reader, closing func(), err error) {
	buffered := bufio.NewReaderSize(in, pieceSize)
	form, err := peek(buffered)
	if err != nil {
		return nil, nil, err
	}
	d.Encryption = ""
	if form == Age {
		d.Encryption = Age
		decrypted, err := decrypt(buffered, o.Keys)
		if errors.Is(err, ErrKey) {
			err = fmt.Errorf("%w%s", err, d.whoCan())
		}
		if err != nil {
			return nil, nil, err
		}
		buffered = bufio.NewReaderSize(decrypted, pieceSize)
		if form, err = peek(buffered); err != nil {
			return nil, nil, err
		}
	}
	if form != Gzip && form != Zstd {
		return nil, nil, damagedf("its data is neither gzip nor zstd, nor one of them in age")
	}
	d.Compression = form
	z, err := decompressor(form, buffered)
	if err != nil {
		return nil, nil, err
	}
	return &ending{z, buffered}, func() { _ = z.Close() }, nil
}

// whoCan names the recipients, where they are known.
func (d Description) whoCan() string {
	if len(d.Recipients) == 0 {
		return ""
	}
	return fmt.Sprintf(" (it is encrypted for %.100q)", d.Recipients)
}

func peek(r *bufio.Reader) (string, error) {
	head, err := r.Peek(MagicSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if len(head) == 0 {
		return "", io.ErrUnexpectedEOF
	}
	return Form(head), nil
}

// An ending is a reader that ends when, and only when, the compressed stream
// does and nothing is behind it.
type ending struct {
	r    io.Reader
	rest *bufio.Reader
}

func (e *ending) Read(p []byte) (int, error) {
	n, err := e.r.Read(p)
	if !errors.Is(err, io.EOF) {
		return n, err
	}
	switch _, err := e.rest.ReadByte(); {
	case err == nil:
		return n, damagedf("there is data after its end")
	case !errors.Is(err, io.EOF):
		return n, err
	}
	return n, io.EOF
}

// A gate is where the snapshot goes through: it is checked, bounded, and
// written.
type gate struct {
	w       io.Writer
	in      *meter
	content *content
	// want is the size that it must have, max the largest that it may have; zero
	// is unknown.
	want, max int64
	progress  func(int64)
}

func (g *gate) write(b []byte) error {
	size := g.content.size + int64(len(b))
	switch {
	case g.want > 0 && size > g.want:
		return damagedf("its content has more than the %d bytes that its description says", g.want)
	case g.max > 0 && size > g.max:
		return fmt.Errorf("it has more than the %d bytes that are allowed", g.max)
	case g.want == 0 && size > freeBytes+maxRatio*g.in.size.Load():
		return damagedf("its content is more than %d times as large as its object", maxRatio)
	}
	// Both take about as long.
	summed := make(chan struct{})
	go func() {
		defer close(summed)
		_, _ = g.content.Write(b) // never fails
	}()
	_, err := g.w.Write(b)
	<-summed
	if err != nil {
		return fmt.Errorf("write snapshot: %w", err)
	}
	if g.progress != nil {
		g.progress(size)
	}
	return nil
}
