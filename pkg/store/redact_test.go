package store

import (
	"strings"
	"testing"
)

func TestRedact(t *testing.T) {
	for text, want := range map[string]string{
		"GET https://a.blob.core.windows.net/c?comp=list&sig=abc%2Bd%3D&se=2026": "GET https://a.blob.core.windows.net/c?comp=list&sig=REDACTED&se=2026",
		`Put "https://b.s3/k?X-Amz-Credential=AK%2F1&X-Amz-Signature=ff00": EOF`: `Put "https://b.s3/k?X-Amz-Credential=REDACTED&X-Amz-Signature=REDACTED": EOF`,
		"https://storage/k?GoogleAccessId=a@b&Signature=x%2By":                   "https://storage/k?GoogleAccessId=REDACTED&Signature=REDACTED",
		"proxyconnect http://user:pass@proxy:3128: refused": "proxyconnect " +
			"http://REDACTED@proxy:3128: refused",
		"AccountName=a;AccountKey=a2V5==;EndpointSuffix=x":    "AccountName=a;AccountKey=REDACTED;EndpointSuffix=x",
		"Authorization: Bearer ey.J.x":                        "Authorization: REDACTED",
		"X-Auth-Token: gAAA-x_y, and more":                    "X-Auth-Token: REDACTED and more",
		`{"user": {"name": "u", "password": "a\"b \\"}}`:      `{"user": {"name": "u", "password": "REDACTED"}}`,
		"read control/etcd-cluster-spec: object is absent":    "read control/etcd-cluster-spec: object is absent",
		"token is for the account a of AZURE_STORAGE_ACCOUNT": "token is for the account a of AZURE_STORAGE_ACCOUNT",
	} {
		if got := redact(text); got != want {
			t.Errorf("%s\n got %s\nwant %s", text, got, want)
		}
		if got := redact(want); strings.Count(got, hidden) != strings.Count(want, hidden) {
			t.Errorf("twice redacted: %s", got)
		}
	}
}

func TestShownLocations(t *testing.T) {
	for location, want := range map[string]string{
		"/var/backups":                        "/var/backups",
		"s3://bucket/dir?region=eu-north-1":   "s3://bucket/dir?region=eu-north-1",
		"s3://me:secret@bucket/dir":           "s3://REDACTED@bucket/dir",
		"s3://token@bucket":                   "s3://REDACTED@bucket",
		"s3://me:sec@ret@bucket/a@b":          "s3://REDACTED@bucket/a@b",
		"azure://c?accountkey=a2V5&x=mail@me": "azure://c?accountkey=REDACTED&x=mail@me",
	} {
		flag := "--backup-store=" + location
		if want != location {
			flag = ""
		}
		if got := Shown(location); got != want || strings.ReplaceAll(Flag(location), "'", "") != flag {
			t.Errorf("%s is shown as %s, want %s; the flag is %s", location, got, want, Flag(location))
		}
	}
}
