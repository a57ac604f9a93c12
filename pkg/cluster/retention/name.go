package retention

import (
	"fmt"
	"strings"
	"time"
)

// The objects of a backup, below its name. The marker is written last and
// deleted first: a backup is complete when, and only when, it has its marker.
const (
	// DataFile is etcd's snapshot stream, compressed with gzip: the form that
	// the existing etcd-manager restores.
	DataFile = "etcd.backup.gz"
	// ZstdFile is the same, compressed with zstd.
	ZstdFile = "etcd.backup.zst"
	// EncryptedSuffix is behind the name of a data file that is encrypted with
	// age.
	EncryptedSuffix = ".age"
	// MarkerFile says what the snapshot is of, to the existing etcd-manager.
	MarkerFile = "_etcd_backup.meta"
	// DescriptionFile says all that we know of the backup, SignatureFile is a
	// signature of it. The existing etcd-manager ignores both.
	DescriptionFile = "_etcdadm_backup.json"
	SignatureFile   = "_etcdadm_backup.sig"
	// VerifiedFile and DrilledFile say that the backup was verified, and
	// restored for a trial, with success. SuspectFile says that one machine found it to
	// be damaged, and DamagedFile that two did, or that an operator says so.
	VerifiedFile = "_etcdadm_verified.json"
	DrilledFile  = "_etcdadm_drilled.json"
	SuspectFile  = "_etcdadm_suspect.json"
	DamagedFile  = "_etcdadm_damaged.json"
)

// IsData reports whether a file below a backup's name is its data, and whether
// that is encrypted.
func IsData(file string) (is, encrypted bool) {
	plain, encrypted := strings.CutSuffix(file, EncryptedSuffix)
	return plain == DataFile || plain == ZstdFile, encrypted
}

// maxSequence is the largest number that Name writes.
const maxSequence = 999999

// Name returns the name of a backup taken at a time, such as
// 2026-11-20T10:39:37Z-000001. The sequence number distinguishes backups of the same
// second apart; it is written with six digits and starts again from zero after
// 999999. A negative one is written as zero.
func Name(at time.Time, sequence int) string {
	if sequence < 0 {
		sequence = 0
	}
	return fmt.Sprintf("%s-%06d", at.UTC().Format(time.RFC3339), sequence%(maxSequence+1))
}

// ParseName returns the time in a backup's name. The part up to "Z-", or the
// whole name where there is no "Z-", must be a time of RFC 3339; whatever
// follows "Z-" does not matter.
func ParseName(name string) (time.Time, error) {
	text := name
	if i := strings.Index(name, "Z-"); i >= 0 {
		text = name[:i+1]
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}, fmt.Errorf("backup name %q does not start with a time such as 2026-11-20T10:39:37Z", name)
	}
	return at.UTC(), nil
}

// A reader is ParseName for many names of the form that Name writes,
// 2026-11-20T10:39:37Z-...: ten thousand are read in each observation of a store, and
// neighbours are of the same day.
type reader struct {
	day      string // 2026-11-20
	midnight int64
}

// read returns the Unix time in a name; ok is false where ParseName has to be
// asked.
func (r *reader) read(name string) (unix int64, ok bool) {
	if len(name) < len("2026-11-20T10:39:37Z-") || name[10] != 'T' || name[13] != ':' || name[16] != ':' ||
		name[19] != 'Z' || name[20] != '-' {
		return 0, false
	}
	hour, a := twoDigits(name[11:])
	minute, b := twoDigits(name[14:])
	second, c := twoDigits(name[17:])
	if !a || !b || !c || hour > 23 || minute > 59 || second > 59 {
		return 0, false
	}
	if name[:10] != r.day {
		day, err := time.Parse(time.DateOnly, name[:10])
		if err != nil {
			return 0, false
		}
		r.day, r.midnight = name[:10], day.Unix()
	}
	return r.midnight + hour*3600 + minute*60 + second, true
}

func twoDigits(s string) (n int64, ok bool) {
	a, b := s[0]-'0', s[1]-'0'
	return int64(a)*10 + int64(b), a <= 9 && b <= 9
}
