package etcdconf

import "testing"

func TestQuota(t *testing.T) {
	for text, want := range map[string]int64{
		"": 2 << 30, "0": 2 << 30, "8589934592": 8 << 30, "0x200000000": 8 << 30, "-1": 0, "much": 2 << 30,
	} {
		if got := Quota(map[string]string{"ETCD_QUOTA_BACKEND_BYTES": text}); got != want {
			t.Errorf("with %q it is %d, want %d", text, got, want)
		}
	}
	if got := Quota(nil); got != 2<<30 {
		t.Errorf("without a variable it is %d", got)
	}
}
