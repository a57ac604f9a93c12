package cloud

import (
	"net/url"
	"strings"
	"testing"

	"github.com/etcdadm/etcdadm/pkg/store"
)

// clean unsets all that the environment may say about stores.
func clean(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"S3_ENDPOINT", "S3_REGION", "S3_ACCESS_KEY_ID", "S3_SECRET_ACCESS_KEY", "KOPS_STATE_S3_ACL",
		"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_PROFILE",
		"AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_CONNECTION_STRING", "AZURE_STORAGEBLOB_CONNECTIONSTRING",
		"STORAGE_EMULATOR_HOST",
		"AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_DOMAIN", "AZURE_STORAGE_PROTOCOL",
		"AZURE_STORAGE_IS_CDN", "AZURE_STORAGE_IS_LOCAL_EMULATOR",
		"OS_AUTH_URL", "OS_USERNAME", "OS_USER_ID", "OS_PASSWORD", "OS_APPLICATION_CREDENTIAL_ID", "OS_PROJECT_ID",
		"OS_PROJECT_NAME", "OS_REGION_NAME", "OS_CACERT", "OPENSTACK_CREDENTIAL_FILE",
	} {
		t.Setenv(name, "")
	}
	none := t.TempDir() + "/none"
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, none)
	}
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// keys set the environment of an S3 server.
var keys = map[string]string{"S3_ENDPOINT": "minio:9000", "S3_ACCESS_KEY_ID": "a", "S3_SECRET_ACCESS_KEY": "b"}

// A store that cannot work says so when it is opened, and what to do.
func TestLocationsThatCannotBe(t *testing.T) {
	for location, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"s3://":                                 {nil, "bucket is missing"},
		"s3:///path":                            {nil, "bucket is missing"},
		"s3://key:secret@bucket/x":              {nil, "environment"},
		"s3://b/x#y":                            {nil, "#"},
		"s3://b/x?colour=red":                   {nil, `unknown option "colour"; the options of s3:// are acl, anonymous`},
		"s3://b/x?region=a&region=b":            {nil, "region has 2 values"},
		"s3://b/x?region=":                      {nil, "empty"},
		"s3://b/x?%zz":                          {nil, "cannot be read"},
		"s3://b/x?anonymous=maybe":              {nil, "true or false"},
		"s3://b/x?use_path_style=maybe":         {nil, "one of true, false"},
		"s3://b/x?ssetype=rot13":                {nil, "one of AES256"},
		"s3://b/x?kmskeyid=k":                   {nil, "ssetype=aws:kms"},
		"s3://b/x?kmskeyid=k&ssetype=AES256":    {nil, "ssetype=aws:kms"},
		"s3://b/x?acl=everyone":                 {nil, "option acl"},
		"s3://b/env-acl":                        {map[string]string{"KOPS_STATE_S3_ACL": "everyone"}, "KOPS_STATE_S3_ACL"},
		"s3://b/x?conditional_writes=sometimes": {nil, "one of on, off"},
		"s3://b/x?endpoint=ftp://host":          {nil, "https://HOST:PORT"},
		"s3://b/x?endpoint=https://a:b@host":    {nil, "https://HOST:PORT"},
		"s3://b/no-keys": {
			map[string]string{"S3_ENDPOINT": "minio:9000"}, "S3_ACCESS_KEY_ID and S3_SECRET_ACCESS_KEY must both be set",
		},
		"s3://b/half-the-keys": {
			map[string]string{"S3_ENDPOINT": "minio:9000", "S3_ACCESS_KEY_ID": "a"}, "must both be set",
		},
		"do://b/x":                             {nil, "S3_ENDPOINT is not set"},
		"linode://b/x":                         {nil, "S3_ENDPOINT is not set"},
		"hos://b/x":                            {nil, "S3_ENDPOINT is not set"},
		"scw://b/x":                            {nil, "S3_ENDPOINT is not set"},
		"do://b/x?endpoint=https://host":       {nil, "S3_ACCESS_KEY_ID"},
		"swift://":                             {nil, "bucket is missing"},
		"swift://c/x":                          {nil, "OS_AUTH_URL does not say where Keystone is, and there is no /rootfs/etc"},
		"swift://c/x?colour=red":               {nil, "conditional_writes, region"},
		"swift://c/x?conditional_writes=maybe": {nil, "one of on, off"},
		"swift://c/no-password": {
			map[string]string{"OS_AUTH_URL": "https://keystone/v3", "OS_USERNAME": "u"}, "no password",
		},
		"gs://":                                  {nil, "bucket is missing"},
		"gs://b/x?region=y":                      {nil, "anonymous, universe_domain"},
		"gs://b/x?anonymous=maybe":               {nil, "true or false"},
		"azblob://":                              {nil, "bucket is missing"},
		"azblob://c/x":                           {nil, "AZURE_STORAGE_ACCOUNT"},
		"azureblob://account":                    {nil, "azureblob://ACCOUNT/CONTAINER/PATH"},
		"azblob://c/x?storage_account=a&key=abc": {nil, `unknown option "key"`},
	} {
		t.Run(location, func(t *testing.T) {
			clean(t)
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			s, err := store.Open(t.Context(), location)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("opened %v, %v, want an error that has %q", s, err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret@") {
				t.Errorf("the error shows a secret: %v", err)
			}
		})
	}
}

func TestS3Locations(t *testing.T) {
	for location, c := range map[string]struct {
		env  map[string]string
		want s3Config
	}{
		"s3://b": {nil, s3Config{}},
		"s3://b/a/path": {
			map[string]string{"S3_REGION": "eu-west-1", "KOPS_STATE_S3_ACL": "bucket-owner-full-control",
				"S3_ACCESS_KEY_ID": "not-for-aws"}, s3Config{dir: "/a/path", region: "eu-west-1", acl: "bucket-owner-full-control"},
		},
		"s3://b?region=eu-north-1": {
			map[string]string{"S3_REGION": "eu-west-1"}, s3Config{region: "eu-north-1", fixed: true},
		},
		"s3://b?ssetype=aws:KMS&kmskeyid=alias/x&acl=private": {
			map[string]string{"KOPS_STATE_S3_ACL": "public-read"}, s3Config{
				encryption: "aws:kms", encryptionKey: "alias/x", acl: "private",
			},
		},
		"s3://b?profile=p&role=arn:x&dualstack=true&fips=1": {
			nil, s3Config{profile: "p", role: "arn:x", dualStack: true, fips: true},
		},
		"s3://b/own": {
			keys, s3Config{dir: "/own", endpoint: "https://minio:9000", key: "a", secret: "b", region: "us-east-1"},
		},
		"do://b/own": {
			keys, s3Config{dir: "/own", endpoint: "https://minio:9000", key: "a", secret: "b", region: "us-east-1"},
		},
		"s3://b?endpoint=http://x":  {nil, s3Config{endpoint: "http://x", region: "us-east-1"}},
		"scw://b?endpoint=http://x": {keys, s3Config{endpoint: "http://x", key: "a", secret: "b", region: "us-east-1"}},
		"s3://b?anonymous=true":     {keys, s3Config{endpoint: "https://minio:9000", anonymous: true, region: "us-east-1"}},
		"s3://b?conditional_writes=off&use_path_style=false&request_checksum_calculation=when_supported": {
			nil, s3Config{unconditional: true, virtualHost: true, checksums: "when_supported"},
		},
	} {
		t.Run(location, func(t *testing.T) {
			clean(t)
			for name, value := range c.env {
				t.Setenv(name, value)
			}
			u, err := url.Parse(location)
			if err != nil {
				t.Fatal(err)
			}
			got, err := parseS3(u)
			c.want.bucket = "b"
			if err != nil || *got != c.want {
				t.Errorf("got\n%+v, %v, want\n%+v", got, err, c.want)
			}
		})
	}
}

// The account is the first part of azureblob:// only where nothing else names one.
func TestAzureLocations(t *testing.T) {
	for location, c := range map[string]struct{ account, want string }{
		"azblob://c/a/path":                     {"env", "https://env.blob.core.windows.net/c a/path"},
		"azureblob://c/a/path":                  {"env", "https://env.blob.core.windows.net/c a/path"},
		"azureblob://account/c/a/path":          {"", "https://account.blob.core.windows.net/c a/path"},
		"azureblob://account/c":                 {"", "https://account.blob.core.windows.net/c "},
		"azblob://c/a?storage_account=account":  {"", "https://account.blob.core.windows.net/c a"},
		"azureblob://c/a?storage_account=other": {"", "https://other.blob.core.windows.net/c a"},
	} {
		clean(t)
		t.Setenv("AZURE_STORAGE_ACCOUNT", c.account)
		u, err := url.Parse(location)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseAzure(u)
		if err != nil {
			t.Errorf("%s: %v", location, err)
			continue
		}
		account := got.options.Get(optAccount)
		if account == "" {
			account = c.account
		}
		if text := "https://" + account + ".blob.core.windows.net/" + got.container + " " + strings.Trim(got.dir,
			"/"); text != c.want {
			t.Errorf("%s is %s, want %s", location, text, c.want)
		}
	}
}
