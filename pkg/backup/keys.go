package backup

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"filippo.io/age"
	"filippo.io/age/agessh"
)

// A Recipient is a public key that backups are encrypted for.
type Recipient struct {
	age  age.Recipient
	text string
}

// maxRecipient is the length up to which a recipient is its own name: those of
// X25519 and of ed25519 are, post-quantum and RSA keys are not.
const maxRecipient = 100

// String names the recipient as a description does: by its key, or by the
// beginning and the SHA-256 of a long one. The comment of an ssh key is left
// out.
func (r Recipient) String() string {
	if len(r.text) <= maxRecipient {
		return r.text
	}
	sum := sha256.Sum256([]byte(r.text))
	return fmt.Sprintf("%s...sha256:%x", r.text[:16], sum[:8])
}

// ParseRecipient reads a recipient as age writes it: age1..., age1pq1..., or an
// ssh-ed25519 or ssh-rsa public key.
func ParseRecipient(text string) (Recipient, error) {
	text = strings.TrimSpace(text)
	switch {
	case strings.HasPrefix(text, "AGE-SECRET-KEY-"):
		return Recipient{}, errors.New("it is a secret key; give its recipient instead, age1... (age-keygen -y prints it)")
	case strings.HasPrefix(text, "ssh-"):
		r, err := agessh.ParseRecipient(text)
		if err != nil {
			return Recipient{}, fmt.Errorf("%.20q... is not a recipient: %w", text, err)
		}
		fields := strings.Fields(text)
		return Recipient{r, strings.Join(fields[:min(len(fields), 2)], " ")}, nil
	}
	parsed, err := age.ParseRecipients(strings.NewReader(text))
	if err != nil || len(parsed) != 1 {
		return Recipient{}, fmt.Errorf("%.20q is not a recipient: it must be age1..., age1pq1... or an ssh public key", text)
	}
	return Recipient{parsed[0], text}, nil
}

// ReadRecipients reads files with a recipient on each line; empty lines and
// those that begin with # do not matter. An error names the file and the line.
func ReadRecipients(paths ...string) ([]Recipient, error) {
	var all []Recipient
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read recipients: %w", err)
		}
		before := len(all)
		for number, line := range lines(b) {
			r, err := ParseRecipient(line)
			if err != nil {
				return nil, fmt.Errorf("read recipients: %s:%d: %w", path, number, err)
			}
			all = append(all, r)
		}
		if len(all) == before {
			return nil, fmt.Errorf("read recipients: %s has none", path)
		}
	}
	return all, nil
}

// Recipients reads what people give to name recipients: each text is a
// recipient, or a file as ReadRecipients reads it.
func Recipients(texts ...string) ([]Recipient, error) {
	var all []Recipient
	for _, text := range texts {
		r, err := ParseRecipient(text)
		if err == nil {
			all = append(all, r)
			continue
		}
		if _, missing := os.Stat(text); missing != nil {
			return nil, err
		}
		list, err := ReadRecipients(text)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

// lines gives the lines that matter, with their numbers.
func lines(b []byte) func(yield func(int, string) bool) {
	return func(yield func(int, string) bool) {
		number := 0
		for line := range strings.SplitSeq(string(b), "\n") {
			number++
			line = strings.TrimSpace(line)
			if line != "" && !strings.HasPrefix(line, "#") && !yield(number, line) {
				return
			}
		}
	}
}

// An Identity is a secret key that decrypts backups.
type Identity struct{ age age.Identity }

// ReadIdentities reads files of secret keys: those of age-keygen, with a key on
// each line, and ssh private keys without a passphrase. An error names the file
// and the line, and nothing of the key.
func ReadIdentities(paths ...string) ([]Identity, error) {
	var all []Identity
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read keys: %w", err)
		}
		keys, err := parseIdentities(b)
		if err != nil {
			return nil, fmt.Errorf("read keys: %s%w", path, err)
		}
		all = append(all, keys...)
	}
	return all, nil
}

// parseIdentities returns the secret keys in a file. An error begins with what
// goes behind the file's name.
func parseIdentities(b []byte) ([]Identity, error) {
	if bytes.HasPrefix(bytes.TrimSpace(b), []byte("-----BEGIN ")) {
		key, err := agessh.ParseIdentity(b)
		if err != nil {
			return nil, fmt.Errorf(": not a usable ssh private key: %w", err)
		}
		return []Identity{{key}}, nil
	}
	var all []Identity
	for number, line := range lines(b) {
		if strings.HasPrefix(line, "age1") || strings.HasPrefix(line, "ssh-") {
			return nil, fmt.Errorf(":%d: it is a public key; give the secret one (AGE-SECRET-KEY-) instead", number)
		}
		keys, err := age.ParseIdentities(strings.NewReader(line))
		if err != nil || len(keys) != 1 {
			// What age says may have the key in it.
			return nil, fmt.Errorf(":%d: it is not a secret key of age (AGE-SECRET-KEY-...)", number)
		}
		all = append(all, Identity{keys[0]})
	}
	if len(all) == 0 {
		return nil, errors.New(": it has no key")
	}
	return all, nil
}

// encrypt returns a writer that encrypts to w.
func encrypt(w io.Writer, recipients []Recipient) (io.WriteCloser, error) {
	list := make([]age.Recipient, len(recipients))
	for i, r := range recipients {
		list[i] = r.age
	}
	out, err := age.Encrypt(w, list...)
	if err != nil {
		return nil, fmt.Errorf("encrypt: %w", err)
	}
	return out, nil
}

// decrypt returns a reader of what r has encrypted. The error is ErrKey if no
// key fits.
func decrypt(r io.Reader, keys []Identity) (io.Reader, error) {
	list := make([]age.Identity, len(keys))
	for i, k := range keys {
		list[i] = k.age
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: none was given", ErrKey)
	}
	out, err := age.Decrypt(r, list...)
	if errors.As(err, new(*age.NoIdentityMatchError)) {
		return nil, ErrKey
	}
	return out, err
}
