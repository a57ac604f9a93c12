package imagebuild

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Annotations of a layout's index by which containerd and others name an image.
const (
	refName        = "org.opencontainers.image.ref.name"
	containerdName = "io.containerd.image.name"
)

// writeLayout makes dir an OCI layout of the images and their referrers. It appears as a
// whole or not at all.
func writeLayout(dir, prefix, version string, images []*built) (err error) {
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%w: %s exists: delete it, or name another directory", errUsage, dir)
	}
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return fmt.Errorf("clear away an unfinished layout: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	to, err := layout.Write(partial, empty.Index)
	if err != nil {
		return fmt.Errorf("write the layout: %w", err)
	}
	for _, b := range images {
		names := map[string]string{refName: b.recipe.tag(version), containerdName: prefix + "/" + b.recipe.ref(version)}
		if err := to.AppendIndex(b.Index, layout.WithAnnotations(names)); err != nil {
			return fmt.Errorf("write image %s: %w", b.recipe.ref(version), err)
		}
		for _, p := range b.Images {
			for _, r := range p.Referrers {
				if err := to.AppendImage(r); err != nil {
					return fmt.Errorf("write what refers to image %s: %w", b.recipe.ref(version), err)
				}
			}
		}
	}
	return os.Rename(partial, dir)
}

// writeTarball makes file an archive as "docker save" writes it, of the images of one
// platform.
func writeTarball(file, prefix, version string, images []*built) error {
	all := map[name.Reference]v1.Image{}
	for _, b := range images {
		ref, err := name.NewTag(prefix + "/" + b.recipe.ref(version))
		if err != nil {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
		all[ref] = b.Images[0].Image
	}
	partial := file + ".partial"
	err := tarball.MultiRefWriteToFile(partial, all)
	if err == nil {
		err = os.Rename(partial, file)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", file, err), removeIfThere(partial))
	}
	return nil
}

func removeIfThere(file string) error {
	if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// push writes the images and their referrers to a registry, with the credentials of
// "docker login". Referrers come first, so that who finds an image finds them too.
func push(ctx context.Context, prefix, version string, images []*built) error {
	options := []remote.Option{
		remote.WithContext(ctx), remote.WithAuthFromKeychain(authn.DefaultKeychain), remote.WithUserAgent("etcdadm-images"),
	}
	for _, b := range images {
		tag, err := name.NewTag(prefix + "/" + b.recipe.ref(version))
		if err != nil {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
		for _, p := range b.Images {
			if err := pushReferrers(tag.Context(), p, options); err != nil {
				return err
			}
		}
		if err := remote.WriteIndex(tag, b.Index, options...); err != nil {
			return fmt.Errorf("push %s: %w", tag, err)
		}
	}
	return nil
}

func pushReferrers(to name.Repository, p platformImage, options []remote.Option) error {
	digest, err := p.Image.Digest()
	if err != nil {
		return err
	}
	if err := remote.Write(to.Digest(digest.String()), p.Image, options...); err != nil {
		return fmt.Errorf("push %s@%s: %w", to, digest, err)
	}
	for _, r := range p.Referrers {
		own, err := r.Digest()
		if err != nil {
			return err
		}
		if err := remote.Write(to.Digest(own.String()), r, options...); err != nil {
			return fmt.Errorf("push what refers to %s@%s: %w", to, digest, err)
		}
	}
	return nil
}
