package stores

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/etcdadm/etcdadm/e2e/stores/servers"
	"github.com/etcdadm/etcdadm/pkg/cluster/retention"
	"github.com/etcdadm/etcdadm/pkg/store"
	"github.com/etcdadm/etcdadm/pkg/store/storetest"
)

// versions returns how many versions and delete markers a bucket has.
func versions(t *testing.T, server *servers.S3) (objects, markers int) {
	t.Helper()
	all, err := server.Client().ListObjectVersions(t.Context(), &s3.ListObjectVersionsInput{Bucket: &server.Bucket})
	if err != nil {
		t.Fatal(err)
	}
	return len(all.Versions), len(all.DeleteMarkers)
}

// In a bucket whose objects are locked, all that is done to a backup works:
// deletion hides it, and its content stays as long as the lock wants.
func TestObjectLock(t *testing.T) {
	server := servers.StartS3(t)
	client, ctx := server.Client(), t.Context()
	server.Bucket = "locked"
	if _, err := client.CreateBucket(ctx, &s3.CreateBucketInput{
		Bucket: &server.Bucket, ObjectLockEnabledForBucket: aws.Bool(true),
	}); err != nil {
		t.Fatal(err)
	}
	_, err := client.PutObjectLockConfiguration(ctx, &s3.PutObjectLockConfigurationInput{
		Bucket: &server.Bucket, ObjectLockConfiguration: &types.ObjectLockConfiguration{
			ObjectLockEnabled: types.ObjectLockEnabledEnabled,
			Rule: &types.ObjectLockRule{
				DefaultRetention: &types.DefaultRetention{Days: aws.Int32(1), Mode: types.ObjectLockRetentionModeCompliance},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, server.Location("x"))
	const name = "2026-11-20T10:39:37Z-000001"
	if made, err := s.Upload(ctx, name+"/"+retention.DataFile, storetest.Content(9<<20)); !made || err != nil {
		t.Fatalf("%t, %v", made, err)
	}
	if err := errors.Join(s.Put(ctx, name+"/"+retention.MarkerFile, []byte("{}")), s.MarkCreated(ctx, time.Now()),
		s.PutStatus(ctx, []byte("1")), s.PutStatus(ctx, []byte("2"))); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Backups(ctx); err != nil || len(all) != 1 {
		t.Errorf("backups are %v, %v", all, err)
	}
	before, _ := versions(t, server)
	if err := s.DeleteBackup(ctx, name); err != nil {
		t.Error(err)
	}
	if all, err := s.Backups(ctx); err != nil || len(all) != 0 {
		t.Errorf("after the deletion backups are %v, %v", all, err)
	}
	if after, markers := versions(t, server); after != before || markers != 2 {
		t.Errorf("of %d versions %d are left, with %d delete markers", before, after, markers)
	}
	// For this server, and not for Amazon's, a name that was deleted is taken. Then
	// no caller is answered that there is an object.
	if made, err := s.Upload(ctx, name+"/"+retention.DataFile, storetest.Content(1<<20)); !made &&
		(!errors.Is(err, store.ErrUnreachable) || !strings.Contains(err.Error(), "deleted")) {
		t.Errorf("again: %t, %v", made, err)
	}
}
