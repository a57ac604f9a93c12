package imagebuild

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/etcdadm/etcdadm/images/notices"
)

// repository is where the source is, for annotations.
const repository = "https://github.com/etcdadm/etcdadm"

// docsDir is where the licenses are in each image.
const docsDir = "/usr/share/doc/etcdadm/"

// A built image is an index over platforms, with what refers to each.
type built struct {
	recipe recipe
	// Index has an image of each platform.
	Index v1.ImageIndex
	// Images are those of the index, in its order.
	Images []platformImage
}

// A platformImage is the image of one platform.
type platformImage struct {
	Platform v1.Platform
	Image    v1.Image
	// Referrers are its bill of materials and its provenance.
	Referrers []v1.Image
}

// image builds the image of a recipe for all platforms.
func (b *builder) image(ctx context.Context, r recipe) (*built, error) {
	out := &built{recipe: r}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range b.platforms {
		img, err := b.forPlatform(ctx, r, p)
		if err != nil {
			return nil, fmt.Errorf("image %s for %s: %w", r.ref(b.source.Version), p, err)
		}
		out.Images = append(out.Images, *img)
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: img.Image, Descriptor: v1.Descriptor{Platform: &p},
		})
	}
	out.Index = mutate.Annotations(index, b.annotations(r)).(v1.ImageIndex)
	return out, nil
}

func (b *builder) forPlatform(ctx context.Context, r recipe, p v1.Platform) (*platformImage, error) {
	dirs, err := b.programs(ctx, r, p)
	if err != nil {
		return nil, err
	}
	docs, err := b.docs(ctx, r, p)
	if err != nil {
		return nil, err
	}
	layers := []v1.Layer{b.base}
	var files []string
	for i, names := range r.layers() {
		var list []file
		for _, name := range names {
			from := filepath.Join(dirs[name], name)
			files = append(files, from)
			list = append(list, file{name: r.Programs[name], mode: 0o755, from: from})
		}
		if i == len(r.layers())-1 {
			for at, program := range r.Names {
				list = append(list, file{name: at, mode: 0o755, same: program})
			}
			for at, target := range r.Links {
				list = append(list, file{name: at, link: target})
			}
			for _, d := range r.Dirs {
				list = append(list, file{name: d, mode: 0o700})
			}
			list = append(list, docs...)
		}
		l, err := layer(b.level, list...)
		if err != nil {
			return nil, err
		}
		layers = append(layers, l)
	}
	img, err := b.assemble(r, p, layers)
	if err != nil {
		return nil, err
	}
	referrers, err := b.referrers(r, p, img, files)
	if err != nil {
		return nil, err
	}
	return &platformImage{Platform: p, Image: img, Referrers: referrers}, nil
}

// docs are the licenses of what is in the image. They are in the layer of the programs that they are of.
func (b *builder) docs(ctx context.Context, r recipe, p v1.Platform) ([]file, error) {
	text, err := b.notices(ctx, r, p)
	if err != nil {
		return nil, err
	}
	docs := []file{{name: docsDir + notices.Name, mode: 0o644, content: string(text)}}
	if r.Etcd == "" {
		docs = append(docs, file{name: docsDir + "LICENSE", mode: 0o644, from: filepath.Join(b.source.Root, "LICENSE")})
	}
	return docs, nil
}

func (b *builder) assemble(r recipe, p v1.Platform, layers []v1.Layer) (v1.Image, error) {
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, types.OCIConfigJSON), types.OCIManifestSchema1)
	config := r.config()
	config.Labels = b.annotations(r)
	created := v1.Time{Time: b.source.Time}
	img, err := mutate.ConfigFile(img, &v1.ConfigFile{
		OS: p.OS, Architecture: p.Architecture, Variant: p.Variant, Created: created, Author: "etcdadm", Config: config,
		RootFS: v1.RootFS{Type: "layers"},
	})
	for _, l := range layers {
		if err != nil {
			break
		}
		img, err = mutate.Append(img, mutate.Addendum{Layer: l, MediaType: types.OCILayer,
			History: v1.History{Created: created, CreatedBy: "images build", Author: "etcdadm"}})
	}
	if err != nil {
		return nil, fmt.Errorf("put the image together: %w", err)
	}
	return mutate.Annotations(img, b.annotations(r)).(v1.Image), nil
}

// annotations returns those of the OCI image specification.
func (b *builder) annotations(r recipe) map[string]string {
	const prefix = "org.opencontainers.image."
	a := map[string]string{
		prefix + "title":         r.Name,
		prefix + "description":   r.Description,
		prefix + "source":        repository,
		prefix + "documentation": repository + "/blob/main/docs/images.md",
		prefix + "licenses":      "Apache-2.0",
		prefix + "version":       r.tag(b.source.Version),
		prefix + "created":       b.source.Time.Format(time.RFC3339),
	}
	if b.source.Commit != "" {
		a[prefix+"revision"] = b.source.Commit
	}
	return a
}

// size returns the sum of the compressed layers, in bytes.
func (p platformImage) size() (int64, error) {
	m, err := p.Image.Manifest()
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, l := range m.Layers {
		sum += l.Size
	}
	return sum, nil
}

// descriptor returns how others refer to the image.
func descriptor(img partial.Describable) (v1.Descriptor, error) {
	d, err := partial.Descriptor(img)
	if err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: d.MediaType, Size: d.Size, Digest: d.Digest}, nil
}

// sorted returns the keys of m in order.
func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
