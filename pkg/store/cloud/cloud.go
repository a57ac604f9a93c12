// Package cloud holds the drivers of the stores in clouds: Amazon S3 and the
// servers that speak its protocol, Google Cloud Storage, Azure Blob Storage and
// Swift.
// A program that imports it, for its effect, can open their locations with
// store.Open:
//
//	s3://BUCKET/PATH                       Amazon S3, or with S3_ENDPOINT any S3 server
//	do:// linode:// hos:// scw://          the same, of the server in S3_ENDPOINT
//	gs://BUCKET/PATH                       Google Cloud Storage
//	azblob://CONTAINER/PATH                Azure Blob Storage, account AZURE_STORAGE_ACCOUNT
//	azureblob://CONTAINER/PATH             the same
//	azureblob://ACCOUNT/CONTAINER/PATH     the same, where AZURE_STORAGE_ACCOUNT is not set
//	swift://CONTAINER/PATH                 Swift, OpenStack's object store
//
// The options behind a question mark and the environment variables are in
// docs/stores.md of this project. The SDKs of the clouds are large, so only main
// packages import this one.
package cloud

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/etcdadm/etcdadm/pkg/store"
)

//nolint:gochecknoinits // programs choose the drivers by importing this package
func init() {
	store.Register("s3", openS3)
	for _, alias := range []string{"do", "linode", "hos", "scw"} {
		store.Register(alias, openS3)
	}
	store.Register("gs", openGCS)
	store.Register("azblob", openAzure)
	store.Register("azureblob", openAzure)
	store.Register("swift", openSwift)
}

// options are the query of a location.
type options struct {
	values url.Values
	known  []string
}

// parseOptions returns the options of a location, all of which must be known
// and given once.
func parseOptions(u *url.URL, known ...string) (options, error) {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return options{}, errors.New("the options behind the question mark cannot be read")
	}
	slices.Sort(known)
	for name, all := range values {
		if !slices.Contains(known, name) {
			return options{}, fmt.Errorf("unknown option %q; the options of %s:// are %s", name, u.Scheme,
				strings.Join(known, ", "))
		}
		if len(all) != 1 || all[0] == "" {
			return options{}, fmt.Errorf("option %s has %d values, or an empty one", name, len(all))
		}
	}
	return options{values, known}, nil
}

func (o options) text(name string) string { return o.values.Get(name) }

// choice returns the value of an option in the spelling of the list, "" if it
// is not given.
func (o options) choice(name string, of ...string) (string, error) {
	v := o.text(name)
	for _, one := range of {
		if strings.EqualFold(v, one) {
			return one, nil
		}
	}
	if v != "" {
		return "", fmt.Errorf("option %s is %q, it must be one of %s", name, v, strings.Join(of, ", "))
	}
	return "", nil
}

// yes returns the value of an option that is true or false.
func (o options) yes(name string) (bool, error) {
	v := o.text(name)
	if v == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(v)
	if err != nil {
		return false, fmt.Errorf("option %s is %q, it must be true or false", name, v)
	}
	return b, nil
}

// bucketName returns the bucket that a location names.
func bucketName(u *url.URL) (string, error) {
	switch {
	case u.User != nil:
		return "", errors.New("a location cannot contain user and password; set credentials in the environment")
	case u.Host == "":
		return "", fmt.Errorf("the bucket is missing: %s://BUCKET/PATH", u.Scheme)
	case u.Fragment != "":
		return "", errors.New("a location cannot have a part after '#'")
	}
	return u.Host, nil
}
