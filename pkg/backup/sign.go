package backup

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// A Signer signs descriptions with an ed25519 key.
type Signer struct{ key ed25519.PrivateKey }

// ID is the short name of the key: the first 16 hexadecimal digits of the
// SHA-256 of the 32 bytes of the public key.
func (s *Signer) ID() string { return keyID(s.key.Public().(ed25519.PublicKey)) }

// idSize is how many bytes of the SHA-256 are a key's id.
const idSize = 8

func keyID(k ed25519.PublicKey) string {
	sum := sha256.Sum256(k)
	return hex.EncodeToString(sum[:idSize])
}

// GenerateSigningKey returns a new key: the private one as PEM of PKCS #8, the
// public one as PEM of PKIX, as openssl writes them.
func GenerateSigningKey() (private, public []byte, err error) {
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("generate signing key: %w", err)
	}
	a, err1 := x509.MarshalPKCS8PrivateKey(key)
	b, err2 := x509.MarshalPKIXPublicKey(pub)
	if err := errors.Join(err1, err2); err != nil {
		return nil, nil, fmt.Errorf("generate signing key: %w", err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: a}),
		pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: b}), nil
}

// ReadSigner reads a private key from a file: PEM of PKCS #8, ed25519.
func ReadSigner(path string) (*Signer, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read signing key: %w", err)
	}
	s, err := ParseSigner(b)
	if err != nil {
		return nil, fmt.Errorf("read signing key: %s: %w", path, err)
	}
	return s, nil
}

// ParseSigner reads a private key: PEM of PKCS #8, ed25519.
func ParseSigner(b []byte) (*Signer, error) {
	block, _ := pem.Decode(b)
	switch {
	case block == nil:
		return nil, errors.New("it is not a PEM file")
	case block.Type == "PUBLIC KEY":
		return nil, errors.New("it is a public key; the private one is needed to sign")
	case block.Type != "PRIVATE KEY":
		return nil, fmt.Errorf("it holds %.40q, not a PRIVATE KEY of PKCS #8 without a passphrase", block.Type)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, errors.New("its key cannot be read")
	}
	signer, ok := key.(ed25519.PrivateKey)
	if !ok {
		return nil, errors.New("its key is not an ed25519 key (openssl genpkey -algorithm ed25519)")
	}
	return &Signer{signer}, nil
}

// Trusted are the public keys of the signers whose backups are believed.
type Trusted []ed25519.PublicKey

// IDs returns the ids of the keys.
func (t Trusted) IDs() []string {
	ids := make([]string, 0, len(t))
	for _, k := range t {
		ids = append(ids, keyID(k))
	}
	return ids
}

// ReadTrusted reads files of public keys: PEM of PKIX, ed25519, any number in
// each.
func ReadTrusted(paths ...string) (Trusted, error) {
	var all Trusted
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read trusted signers: %w", err)
		}
		keys, err := ParseTrusted(b)
		if err != nil {
			return nil, fmt.Errorf("read trusted signers: %s: %w", path, err)
		}
		all = append(all, keys...)
	}
	return all, nil
}

// ParseTrusted reads public keys: PEM of PKIX, ed25519. There must be one.
func ParseTrusted(b []byte) (Trusted, error) {
	var all Trusted
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		number := len(all) + 1
		if block.Type != "PUBLIC KEY" {
			return nil, fmt.Errorf("key %d is a %.40q, not a PUBLIC KEY", number, block.Type)
		}
		key, err := x509.ParsePKIXPublicKey(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("key %d cannot be read: %w", number, err)
		}
		public, ok := key.(ed25519.PublicKey)
		if !ok {
			return nil, fmt.Errorf("key %d is not an ed25519 key", number)
		}
		all = append(all, public)
	}
	if len(all) == 0 {
		return nil, errors.New("it has no PUBLIC KEY in PEM")
	}
	return all, nil
}

// A signature is the content of a signature file.
type signature struct {
	Algorithm string `json:"algorithm"`
	KeyID     string `json:"keyID"`
	// Signature is in base64.
	Signature string `json:"signature"`
}

const ed25519Name = "ed25519"

// sign returns the signature file of a description file.
func (s *Signer) sign(description []byte) ([]byte, error) {
	sum := base64.StdEncoding.EncodeToString(ed25519.Sign(s.key, description))
	return json.Marshal(signature{ed25519Name, s.ID(), sum})
}

// parse reads a signature file. Names that only seem right are wrong.
func (s *signature) parse(b []byte) (raw []byte, err error) {
	var fields map[string]string
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, fmt.Errorf("%w: its signature cannot be read: %w", ErrSigner, err)
	}
	*s = signature{fields["algorithm"], fields["keyID"], fields["signature"]}
	if s.Algorithm != ed25519Name {
		return nil, fmt.Errorf("%w: its signature is of %.20q, not %s", ErrSigner, s.Algorithm, ed25519Name)
	}
	if len(fields) != 3 || len(s.KeyID) != 2*idSize {
		return nil, fmt.Errorf("%w: its signature file must have the fields algorithm, keyID and signature, and no others", ErrSigner)
	}
	if raw, err = base64.StdEncoding.Strict().DecodeString(s.Signature); err != nil {
		return nil, fmt.Errorf("%w: its signature cannot be read: %w", ErrSigner, err)
	}
	return raw, nil
}

// verify reports why a signature file is not a trusted signer's signature of a
// description file, which names the signer. The error is ErrSigner.
func (t Trusted) verify(signer string, description, file []byte) error {
	var s signature
	raw, err := s.parse(file)
	if err != nil {
		return err
	}
	if s.KeyID != signer {
		return fmt.Errorf("%w: its description names the key %.40q, its signature %q", ErrSigner, signer, s.KeyID)
	}
	known := false
	for _, k := range t {
		if keyID(k) != s.KeyID {
			continue
		}
		known = true
		if ed25519.Verify(k, description, raw) {
			return nil
		}
	}
	if known {
		return fmt.Errorf("%w: the signature of key %s does not match its description", ErrSigner, s.KeyID)
	}
	return &unknownSignerError{s.KeyID}
}

// An unknownSignerError says that a backup is signed by a key that is not
// among the trusted ones.
type unknownSignerError struct{ id string }

func (e *unknownSignerError) Error() string {
	return fmt.Sprintf("%v: it is signed with the key %.40q, which is not among them", ErrSigner, e.id)
}

func (e *unknownSignerError) Unwrap() error { return ErrSigner }
