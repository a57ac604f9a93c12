package cloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	azblob "github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blockblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"gocloud.dev/blob"
	"gocloud.dev/blob/azureblob"

	"github.com/etcdadm/etcdadm/pkg/internal/proxies"
	"github.com/etcdadm/etcdadm/pkg/store"
)

// Names of options, those of gocloud.dev's Azure driver.
const (
	optDomain   = "domain"
	optProtocol = "protocol"
	optCDN      = "cdn"
	optEmulator = "localemu"
	optAccount  = "storage_account"
)

// An azureConfig is what a location and the environment say of a container.
type azureConfig struct {
	container, dir string
	options        url.Values
}

func openAzure(u *url.URL) (store.Dial, error) {
	c, err := parseAzure(u)
	if err != nil {
		return nil, err
	}
	return c.dial, nil
}

// parseAzure reads azblob://CONTAINER/PATH, azureblob://CONTAINER/PATH and, where
// nothing else names the account, azureblob://ACCOUNT/CONTAINER/PATH.
func parseAzure(u *url.URL) (*azureConfig, error) {
	name, err := bucketName(u)
	if err != nil {
		return nil, err
	}
	o, err := parseOptions(u, optDomain, optProtocol, optCDN, optEmulator, optAccount)
	if err != nil {
		return nil, err
	}
	c := &azureConfig{container: name, dir: u.Path, options: o.values}
	known := o.text(optAccount) != "" || os.Getenv("AZURE_STORAGE_ACCOUNT") != "" ||
		os.Getenv("AZURE_STORAGE_CONNECTION_STRING") != "" || os.Getenv("AZURE_STORAGEBLOB_CONNECTIONSTRING") != ""
	path := strings.Trim(u.Path, "/")
	switch {
	case known:
	case u.Scheme == "azureblob" && path != "":
		c.options.Set(optAccount, name)
		c.container, c.dir, _ = strings.Cut(path, "/")
	default:
		return nil, fmt.Errorf("the storage account is missing: set AZURE_STORAGE_ACCOUNT, or the option %s, or write "+
			"azureblob://ACCOUNT/CONTAINER/PATH", optAccount)
	}
	// The account becomes a part of a host name, to which credentials are sent.
	if account := c.options.Get(optAccount); account != "" && !azureAccount.MatchString(account) {
		return nil, fmt.Errorf("%q is not the name of a storage account: it has 3 to 24 letters and digits", account)
	}
	return c, nil
}

// azureAccount matches names of storage accounts, which are in lower case, and of
// their secondary endpoints.
var azureAccount = regexp.MustCompile(`^[a-z0-9]{3,24}(-secondary)?$`)

// dial opens the container.
func (c *azureConfig) dial(ctx context.Context) (*store.Bucket, error) {
	blobs, err := c.open(context.WithoutCancel(ctx))
	if err != nil {
		return nil, err
	}
	b := &store.Bucket{Blobs: blobs, Dir: c.dir, Explain: func(err error) error { return explainAzure(c.container, err) }}
	var client *container.Client
	if !blobs.As(&client) {
		return nil, errors.Join(errors.New("gocloud.dev does not show its client of Azure"), blobs.Close())
	}
	b.Write = func(ctx context.Context, key string, r io.Reader, o store.WriteOptions) error {
		return writeAzure(ctx, client.NewBlockBlobClient(azureKey.Replace(key)), r, o)
	}
	return b, nil
}

// open finds the credentials: a key, a SAS token or a connection string in
// AZURE_STORAGE_..., or Azure's default chain. gocloud.dev's own opener (v0.47.0)
// takes a key and a token only for the account that the environment names.
func (c *azureConfig) open(ctx context.Context) (*blob.Bucket, error) {
	service, account, key := azureblob.NewDefaultServiceURLOptions(), c.options.Get(optAccount),
		os.Getenv("AZURE_STORAGE_KEY")
	if key != "" && account != "" {
		service.SASToken = "" // it is not needed
	}
	connection := os.Getenv("AZURE_STORAGE_CONNECTION_STRING") + os.Getenv("AZURE_STORAGEBLOB_CONNECTIONSTRING")
	switch {
	case service.SASToken != "":
		// The token is a part of the URL: a location must not lead it elsewhere.
		for _, o := range []string{optDomain, optProtocol, optCDN, optEmulator} {
			if c.options.Has(o) {
				return nil, fmt.Errorf("AZURE_STORAGE_SAS_TOKEN is set, so that the option %s is not allowed: set "+
					"AZURE_STORAGE_DOMAIN, AZURE_STORAGE_PROTOCOL, AZURE_STORAGE_IS_CDN or AZURE_STORAGE_IS_LOCAL_EMULATOR", o)
			}
		}
		if account != "" && service.AccountName != "" && account != service.AccountName {
			return nil, fmt.Errorf("AZURE_STORAGE_SAS_TOKEN is for the account %s of AZURE_STORAGE_ACCOUNT, but the location "+
				"names %s", service.AccountName, account)
		}
	case key == "" && connection != "" && account != "" && account != service.AccountName:
		return nil, fmt.Errorf("the connection string is for the account %s, but the location names %s", service.AccountName,
			account)
	}
	if account != "" {
		service.AccountName = account
	}
	opener := azureblob.URLOpener{ServiceURLOptions: *service,
		MakeClient: func(at azureblob.ServiceURL, name azureblob.ContainerName) (*container.Client, error) {
			where, err := url.JoinPath(string(at), string(name))
			switch known := os.Getenv("AZURE_STORAGE_ACCOUNT") != "" && key != ""; {
			case err != nil:
				return nil, err
			case key != "" && account != "":
			case !known && service.SASToken == "" && connection == "":
				return azureDefault(where)
			default:
				return azureblob.NewDefaultClient(at, name)
			}
			shared, err := azblob.NewSharedKeyCredential(account, key)
			if err != nil {
				return nil, fmt.Errorf("AZURE_STORAGE_KEY: %w", err)
			}
			return container.NewClientWithSharedKeyCredential(where, shared, nil)
		}}
	return opener.OpenBucketURL(ctx, &url.URL{Scheme: azureblob.Scheme, Host: c.container, RawQuery: c.options.Encode()})
}

// azureDefault returns a client with Azure's default chain of credentials, as gocloud.dev
// does, which asks for the token of the machine's own identity past any proxy.
func azureDefault(where string) (*container.Client, error) {
	credential, err := azidentity.NewDefaultAzureCredential(&azidentity.DefaultAzureCredentialOptions{
		ClientOptions: azcore.ClientOptions{Transport: proxies.Client()},
	})
	if err != nil {
		return nil, fmt.Errorf("credentials: %w", err)
	}
	return container.NewClient(where, credential, nil)
}

// azureKey spells keys as gocloud.dev does, of the characters that are allowed
// in ours.
var azureKey = strings.NewReplacer(`"`, "__0x22__", "#", "__0x23__", "%", "__0x25__", "?", "__0x3f__")

const (
	// azureBlock and azureBlocks bound the memory of an upload, 24 MiB, and its
	// size, 390 GiB in 50,000 blocks.
	azureBlock  = 8 << 20
	azureBlocks = 3
)

// writeAzure stores a blob. gocloud.dev's writer (v0.47.0) crashes the program
// when Azure answers with an error before all is written, as it does when the key
// of a conditional write is taken. Blocks of an upload that breaks off are not
// seen, and Azure deletes them after a week.
func writeAzure(ctx context.Context, client *blockblob.Client, r io.Reader, o store.WriteOptions) error {
	set := &blockblob.UploadStreamOptions{
		BlockSize: azureBlock, Concurrency: azureBlocks,
		HTTPHeaders: &azblob.HTTPHeaders{BlobContentType: to.Ptr(contentType)},
		Metadata:    map[string]*string{},
	}
	if o.Size >= 0 && o.Size < azureBlock {
		// Blocks are allocated as a whole.
		set.BlockSize, set.Concurrency = max(o.Size+1, 4<<10), 1
	}
	for name, value := range o.Metadata {
		set.Metadata[name] = &value
	}
	if o.OnlyAbsent {
		set.AccessConditions = &azblob.AccessConditions{
			ModifiedAccessConditions: &azblob.ModifiedAccessConditions{IfNoneMatch: to.Ptr(azcore.ETagAny)},
		}
	}
	_, err := client.UploadStream(ctx, r, set)
	if bloberror.HasCode(err, bloberror.BlobAlreadyExists, bloberror.ConditionNotMet, bloberror.TargetConditionNotMet) {
		return fmt.Errorf("%w: %w", store.ErrTaken, err)
	}
	return err
}

// explainAzure gives errors of Azure their kind.
func explainAzure(name string, err error) error {
	var answer *azcore.ResponseError
	switch {
	case strings.Contains(err.Error(), "no such host"):
		// For gocloud.dev that means "not found".
		return fmt.Errorf("%w: %w", store.ErrUnreachable, err)
	case errors.As(err, &answer):
	case strings.Contains(err.Error(), "failed to acquire a token"):
		// Of none of the sources that azidentity tries; the error has no type.
		return &credentialsError{service: "Azure", err: err,
			next: "set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN, or give the machine a managed identity"}
	default:
		return nil
	}
	switch {
	case bloberror.HasCode(err, bloberror.ContainerNotFound, bloberror.ContainerBeingDeleted, bloberror.ContainerDisabled):
		return fmt.Errorf("%w: there is no container %s: %w", store.ErrUnreachable, name, err)
	case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden,
		bloberror.HasCode(err, bloberror.BlobImmutableDueToPolicy):
		return fmt.Errorf("%w: %w", store.ErrDenied, err)
	}
	return nil
}
