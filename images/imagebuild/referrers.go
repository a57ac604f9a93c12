package imagebuild

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime/debug"
	"strings"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Media types of what refers to an image. Registries take that of the configuration for
// the kind of the artifact.
const (
	sbomType       types.MediaType = "application/vnd.cyclonedx+json"
	provenanceType types.MediaType = "application/vnd.in-toto+json"
)

func (b *builder) referrers(r recipe, p v1.Platform, img v1.Image, files []string) ([]v1.Image, error) {
	subject, err := descriptor(img)
	if err != nil {
		return nil, err
	}
	bom, modules, err := b.billOfMaterials(r, files)
	if err != nil {
		return nil, err
	}
	statement, err := b.provenance(r, p, subject.Digest, modules)
	if err != nil {
		return nil, err
	}
	var all []v1.Image
	for _, doc := range []struct {
		kind    types.MediaType
		content []byte
	}{{sbomType, bom}, {provenanceType, statement}} {
		artifact, err := b.artifact(doc.kind, doc.content, subject)
		if err != nil {
			return nil, err
		}
		all = append(all, artifact)
	}
	return all, nil
}

// artifact makes the manifest of a document about subject.
func (b *builder) artifact(kind types.MediaType, content []byte, subject v1.Descriptor) (v1.Image, error) {
	img := mutate.MediaType(mutate.ConfigMediaType(empty.Image, kind), types.OCIManifestSchema1)
	img, err := mutate.Append(img, mutate.Addendum{Layer: static.NewLayer(content, kind)})
	if err != nil {
		return nil, fmt.Errorf("make the artifact of a document: %w", err)
	}
	img = mutate.Annotations(img, map[string]string{
		"org.opencontainers.image.created": b.source.Time.Format(time.RFC3339),
	}).(v1.Image)
	return mutate.Subject(img, subject).(v1.Image), nil
}

// billOfMaterials lists the programs, and below each the Go modules that it was built from, as
// the program itself says. It returns the modules' package URLs with their go.sum
// hashes, too.
func (b *builder) billOfMaterials(r recipe, files []string) ([]byte, map[string]string, error) {
	modules := map[string]string{}
	var programs []cyclonedx.Component
	for _, f := range files {
		info, err := buildinfo.ReadFile(f)
		if err != nil {
			return nil, nil, fmt.Errorf("read what %s was built from: %w", f, err)
		}
		name := filepath.Base(f)
		parts := []cyclonedx.Component{{
			Type: cyclonedx.ComponentTypeLibrary, BOMRef: name + "#std", Name: "std", Version: info.GoVersion,
			PackageURL: "pkg:golang/std@" + strings.TrimPrefix(info.GoVersion, "go"),
		}}
		for _, m := range append([]*debug.Module{&info.Main}, info.Deps...) {
			if m.Replace != nil {
				m = m.Replace
			}
			if m.Version == "" || m.Version == "(devel)" {
				continue // a folder of this source tree
			}
			purl := "pkg:golang/" + m.Path + "@" + m.Version
			modules[purl] = m.Sum
			parts = append(parts, cyclonedx.Component{
				Type: cyclonedx.ComponentTypeLibrary, BOMRef: name + "#" + m.Path, Name: m.Path, Version: m.Version,
				PackageURL: purl,
			})
		}
		modules["pkg:golang/std@"+strings.TrimPrefix(info.GoVersion, "go")] = ""
		programs = append(programs, cyclonedx.Component{
			Type: cyclonedx.ComponentTypeApplication, BOMRef: name, Name: name, Version: b.versionOf(info),
			Components: &parts,
		})
	}
	doc := cyclonedx.NewBOM()
	doc.Metadata = &cyclonedx.Metadata{
		Timestamp: b.source.Time.Format(time.RFC3339),
		Component: &cyclonedx.Component{
			Type: cyclonedx.ComponentTypeContainer, BOMRef: r.Name, Name: r.Name, Version: r.tag(b.source.Version),
		},
	}
	doc.Components = &programs
	var out bytes.Buffer
	if err := cyclonedx.NewBOMEncoder(&out, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(doc); err != nil {
		return nil, nil, fmt.Errorf("write the bill of materials: %w", err)
	}
	return out.Bytes(), modules, nil
}

// versionOf returns the version of the module that a program is of: ours is the source
// tree, which has none.
func (b *builder) versionOf(info *buildinfo.BuildInfo) string {
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	return b.source.Version
}

// A statement is what https://slsa.dev/spec/v1.0/provenance describes.
type statement struct {
	Type          string     `json:"_type"`
	Subject       []resource `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

type resource struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		ResolvedDependencies []resource        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

// provenance says what the image was made from. It names no machine and no time of
// building, which would make it differ from build to build.
func (b *builder) provenance(r recipe, p v1.Platform, digest v1.Hash, modules map[string]string) ([]byte, error) {
	s := statement{
		Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1",
		Subject: []resource{{Name: r.ref(b.source.Version), Digest: map[string]string{digest.Algorithm: digest.Hex}}},
	}
	def := &s.Predicate.BuildDefinition
	def.BuildType = repository + "/images/build/v1"
	def.ExternalParameters = map[string]string{"image": r.ref(b.source.Version), "platform": p.String()}
	source := resource{URI: "git+" + repository}
	if b.source.Commit != "" {
		source.Digest = map[string]string{"gitCommit": b.source.Commit}
	}
	def.ResolvedDependencies = []resource{source}
	for _, purl := range sorted(modules) {
		module := resource{URI: purl}
		if h1 := modules[purl]; h1 != "" {
			module.Digest = map[string]string{"goModuleH1": h1}
		}
		def.ResolvedDependencies = append(def.ResolvedDependencies, module)
	}
	s.Predicate.RunDetails.Builder.ID = repository + "/images/build"
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the provenance: %w", err)
	}
	return append(out, '\n'), nil
}
