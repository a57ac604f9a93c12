package etcdconf

import "strconv"

// defaultQuota is the quota that etcd takes where none is set, or 0.
const defaultQuota = 2 << 30

// Quota returns the size of the database, in bytes, at which a member with these variables takes no
// more writes; 0 is for no limit, which etcd has where the quota is negative. With one that is no
// number etcd does not start.
func Quota(env map[string]string) int64 {
	quota, err := strconv.ParseInt(env["ETCD_QUOTA_BACKEND_BYTES"], 0, 64)
	switch {
	case err != nil || quota == 0:
		return defaultQuota
	case quota < 0:
		return 0
	}
	return quota
}
