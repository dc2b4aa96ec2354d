package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
)

// Size limits of encoded objects, checked before anything is parsed.
const (
	MaxManifestBytes  = 64 << 20
	MaxPartBytes      = 32 << 20
	MaxRetentionBytes = 64 << 20
)

// The reasons why an object is refused; the error that wraps one of them has the details. None of them ever
// makes anybody fall back to an older checkpoint silently: the job stops and says so.
var (
	// ErrTruncated: the object ends before its digest.
	ErrTruncated = errors.New("object is truncated")
	// ErrDamaged: the digest does not match the content.
	ErrDamaged = errors.New("object is damaged")
	// ErrVersion: another version of the program wrote the object.
	ErrVersion = errors.New("object has an unknown version")
	// ErrInvalid: the content is intact but breaks a rule of the format.
	ErrInvalid = errors.New("object is invalid")
	// ErrTooLarge: the object exceeds the limit of its kind.
	ErrTooLarge = errors.New("object is too large")
)

// An encoded object is one line of JSON and one line with its digest:
//
//	{"version":1,"kind":"checkpoint",…}⏎
//	sha256 <64 hexadecimal digits of the SHA-256 of the first line without its ⏎>⏎
//
// so that it can be read with any tool, and a cut or a flipped bit is always noticed. The JSON is what
// encoding/json makes of the struct, lists sorted; Decode accepts nothing else.
const (
	trailerTag  = "\nsha256 "
	trailerSize = len(trailerTag) + 2*sha256.Size + 1
)

func seal(what string, v any, limit int) ([]byte, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", what, err)
	}
	sum := sha256.Sum256(body)
	body = append(body, trailerTag...)
	body = hex.AppendEncode(body, sum[:])
	body = append(body, '\n')
	if len(body) > limit {
		return nil, fmt.Errorf("encode %s: %d bytes, at most %d: %w", what, len(body), limit, ErrTooLarge)
	}
	return body, nil
}

// open checks size and digest and returns the JSON.
func open(what string, b []byte, limit int) ([]byte, error) {
	if len(b) > limit {
		return nil, fmt.Errorf("decode %s: %d bytes, at most %d: %w", what, len(b), limit, ErrTooLarge)
	}
	cut := len(b) - trailerSize
	if cut < 0 || !bytes.HasPrefix(b[cut:], []byte(trailerTag)) || b[len(b)-1] != '\n' {
		return nil, fmt.Errorf("decode %s: %d bytes without a digest at the end: %w", what, len(b), ErrTruncated)
	}
	sum := sha256.Sum256(b[:cut])
	if got := string(b[cut+len(trailerTag) : len(b)-1]); got != hex.EncodeToString(sum[:]) {
		return nil, fmt.Errorf("decode %s: digest %x, the object says %s: %w", what, sum, got, ErrDamaged)
	}
	return b[:cut], nil
}

// decode parses an object into v. Its version is looked at first: an unknown one is reported as such and not
// as an unknown field.
func decode(what string, b []byte, limit int, v any) error {
	body, err := open(what, b, limit)
	if err != nil {
		return err
	}
	var head struct {
		Version int `json:"version"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return fmt.Errorf("decode %s: %w: %w", what, ErrInvalid, err)
	}
	if head.Version != FormatVersion {
		return fmt.Errorf("decode %s: version %d, this program knows %d: %w", what, head.Version, FormatVersion, ErrVersion)
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("decode %s: %w: %w", what, ErrInvalid, err)
	}
	again, err := json.Marshal(v)
	if err != nil || !bytes.Equal(again, body) {
		return fmt.Errorf("decode %s: not in canonical form: %w", what, ErrInvalid)
	}
	return nil
}

// Digest is the SHA-256 (hexadecimal) of b.
func Digest(b []byte) string {
	s := sha256.Sum256(b)
	return hex.EncodeToString(s[:])
}

// EncodeManifest validates m and returns its bytes, a pure function of m.
func EncodeManifest(m Manifest) ([]byte, error) {
	if err := m.Validate(); err != nil {
		return nil, fmt.Errorf("encode %s: %w", m.Name(), err)
	}
	return seal(m.Name(), m, MaxManifestBytes)
}

// DecodeManifest reads what stands at chk-<n>/manifest. It wraps ErrTruncated, ErrDamaged, ErrVersion,
// ErrTooLarge or ErrInvalid. The caller checks that the identity is the expected one (Manifest.Is).
func DecodeManifest(b []byte) (Manifest, error) {
	var m Manifest
	if err := decode("manifest", b, MaxManifestBytes, &m); err != nil {
		return Manifest{}, err
	}
	if err := m.Validate(); err != nil {
		return Manifest{}, fmt.Errorf("decode %s: %w", m.Name(), err)
	}
	return m, nil
}

// EncodePart validates p and returns its bytes.
func EncodePart(p Part) ([]byte, error) {
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("encode %s: %w", p.Name(), err)
	}
	return seal(p.Name(), p, MaxPartBytes)
}

// DecodePart reads a node's part object; errors as for DecodeManifest.
func DecodePart(b []byte) (Part, error) {
	var p Part
	if err := decode("part", b, MaxPartBytes, &p); err != nil {
		return Part{}, err
	}
	if err := p.Validate(); err != nil {
		return Part{}, fmt.Errorf("decode %s: %w", p.Name(), err)
	}
	return p, nil
}
