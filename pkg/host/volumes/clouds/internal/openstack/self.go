package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/etcdadm/etcdadm/pkg/host/volumes"
)

const metadataURL = "http://169.254.169.254/openstack/latest/meta_data.json"

// metadata is what a server learns of itself.
type metadata struct {
	UUID string `json:"uuid"`
	Zone string `json:"availability_zone"`
}

// ask reads the metadata from the drive that some clouds attach to their
// servers, and elsewhere from the service.
func (p *provider) ask(ctx context.Context) (metadata, error) {
	text, missing := p.drive()
	if missing == nil {
		m, err := parse(text)
		if err == nil {
			return m, nil
		}
		missing = err
	}
	text, err := volumes.Metadata(ctx, p.local, http.MethodGet, p.metadata)
	if err != nil {
		return metadata{}, fmt.Errorf("%w; the drive with metadata: %w", err, missing)
	}
	return parse(text)
}

func parse(text string) (metadata, error) {
	var m metadata
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		return m, fmt.Errorf("metadata: %w", err)
	}
	if m.UUID == "" {
		return m, errors.New("metadata has no uuid")
	}
	return m, nil
}

// types are the file systems that the drive may have.
var types = []string{"iso9660", "vfat"}

// drive returns what reads the metadata on the drive of the machine whose file
// system is at root.
func drive(root string) func() (string, error) {
	return func() (string, error) {
		var device string
		var err error
		for _, label := range []string{"config-2", "CONFIG-2"} {
			if device, err = filepath.EvalSymlinks(filepath.Join("/", root, "dev/disk/by-label", label)); err == nil {
				return readDrive(device, types)
			}
		}
		return "", fmt.Errorf("no disk has the label config-2: %w", err)
	}
}

// readDrive mounts a device as one of the types for as long as it is read.
func readDrive(device string, types []string) (text string, err error) {
	dir, err := os.MkdirTemp("", "config-drive-")
	if err != nil {
		return "", fmt.Errorf("mount %s: %w", device, err)
	}
	defer func() { err = errors.Join(err, os.Remove(dir)) }()
	const flags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	for _, kind := range types {
		if err = unix.Mount(device, dir, kind, flags, ""); err == nil {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("mount %s: %w", device, err)
	}
	f, err := os.Open(filepath.Join(dir, "openstack/latest/meta_data.json"))
	if err == nil {
		defer f.Close()
	}
	// The file stays open, and nothing is left behind by whoever is killed now.
	if left := unix.Unmount(dir, unix.MNT_DETACH); left != nil || err != nil {
		return "", errors.Join(err, left)
	}
	all, err := io.ReadAll(io.LimitReader(f, 1<<20))
	return string(all), err
}
