package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"runtime/debug"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// billOf returns the bill of materials of a program: each module that its build recorded, and the
// Go toolchain, whose library is part of it.
func billOf(info *debug.BuildInfo, program []byte) ([]byte, error) {
	sum := sha256.Sum256(program)
	self := component(&info.Main)
	self.Type = cdx.ComponentTypeApplication
	self.Hashes = &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	self.Licenses = &cdx.Licenses{{License: &cdx.License{ID: "MIT"}}}
	parts := []cdx.Component{{
		BOMRef: "pkg:golang/std@" + info.GoVersion, Type: cdx.ComponentTypeLibrary, Name: "std", Version: info.GoVersion,
		PackageURL: "pkg:golang/std@" + info.GoVersion,
	}}
	refs := []string{parts[0].BOMRef}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		c := component(m)
		parts, refs = append(parts, c), append(refs, c.BOMRef)
	}
	bom := cdx.NewBOM()
	bom.Metadata = &cdx.Metadata{Timestamp: builtAt(info).Format(time.RFC3339), Component: &self}
	bom.Components = &parts
	bom.Dependencies = &[]cdx.Dependency{{Ref: self.BOMRef, Dependencies: &refs}}
	var b bytes.Buffer
	err := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).EncodeVersion(bom, cdx.SpecVersion1_5)
	return b.Bytes(), err
}

// component describes a module. The sum is go.sum's: of the module's files, not of an archive, so it
// is a property and no hash.
func component(m *debug.Module) cdx.Component {
	url := "pkg:golang/" + m.Path + "@" + m.Version
	c := cdx.Component{BOMRef: url, Type: cdx.ComponentTypeLibrary, Name: m.Path, Version: m.Version, PackageURL: url}
	if m.Sum != "" {
		c.Properties = &[]cdx.Property{{Name: "go:sum", Value: m.Sum}}
	}
	return c
}
