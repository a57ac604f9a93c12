package pages

import "bytes"

// An Item is a key with its value. Both slices are good until the function
// that got them returns.
type Item struct {
	Key, Value []byte
	// At is where the value begins in the file.
	At     int64
	bucket bool
}

// seen has a bit for each page.
type seen map[uint64]uint64

// add reports false for a page that is there already.
func (s seen) add(id uint64) bool {
	word, bit := id/64, uint64(1)<<(id%64)
	if s[word]&bit != 0 {
		return false
	}
	s[word] |= bit
	return true
}

// A Walk goes through buckets, and through no page twice.
type Walk struct {
	f    *File
	seen seen
	// levels are the branch pages that are being walked, leaf is the page below
	// them, last the key before.
	levels [maxDepth][]byte
	leaf   []byte
	last   []byte
	pages  int64
	// edge says to go to the last page of each level only.
	edge bool
	// visit gets each item.
	visit func(Item) error
}

// Walk begins a walk.
func (f *File) Walk() *Walk {
	s := make(seen, len(f.names))
	for word, bits := range f.names {
		s[word] = bits
	}
	return &Walk{f: f, seen: s}
}

// Read is how many bytes of the file the walk has been through.
func (w *Walk) Read() int64 { return w.pages * w.f.pageSize }

// Bucket visits the items of a bucket in the order of their keys. It ends with
// the first error of visit.
func (w *Walk) Bucket(b Bucket, visit func(Item) error) error {
	plain := func(i Item) error {
		if i.bucket {
			return damaged("there is a bucket %q in the bucket %s", i.Key, b.Name)
		}
		return visit(i)
	}
	if b.root != noBucketRoot {
		return w.tree(b.root, plain)
	}
	w.visit, w.last = plain, w.last[:0]
	p := page{w.f, b.inline, b.at}
	if len(b.inline) < headerSize || p.flags() != leafFlag {
		return damaged("the bucket %s is invalid", b.Name)
	}
	return w.items(p, nil, new(false))
}

// End visits the items of the last leaf page of a bucket, among them that with
// the highest key.
func (w *Walk) End(b Bucket, visit func(Item) error) error {
	w.edge = true
	defer func() { w.edge = false }()
	return w.Bucket(b, visit)
}

// tree visits the items below a page.
func (w *Walk) tree(root uint64, visit func(Item) error) error {
	w.visit, w.last = visit, w.last[:0]
	return w.page(root, 0, nil, new(false))
}

// page visits the items on a page and those below it, whose keys are not below
// least. Any is whether there was an item before.
func (w *Walk) page(id uint64, depth int, least []byte, any *bool) error {
	if depth == maxDepth {
		return damaged("page %d is nested in %d others", id, depth)
	}
	header, err := w.header(id)
	if err != nil {
		return err
	}
	if header.flags() == leafFlag {
		p, err := w.extent(id, header, &w.leaf, maxExtent)
		if err != nil {
			return err
		}
		return w.items(p, least, any)
	}
	p, err := w.extent(id, header, &w.levels[depth], max(maxBranch, w.f.pageSize))
	if err != nil {
		return err
	}
	if p.count() == 0 {
		return damaged("page %d points to nothing", id)
	}
	end := headerSize + p.count()*elementSize
	for i := range p.count() {
		e := p.element(i)
		key, err := p.slice(i, p.f.order.Uint32(e), p.f.order.Uint32(e[4:]), 0, &end)
		if err != nil {
			return err
		}
		if c := bytes.Compare(key, least); c < 0 || c == 0 && i > 0 {
			return damaged("the keys on page %d are not in order", id)
		}
		if least = key; w.edge && i < p.count()-1 {
			continue
		}
		if err := w.page(p.f.order.Uint64(e[8:]), depth+1, key, any); err != nil {
			return err
		}
	}
	return nil
}

// header reads the first page of an extent and marks it all as seen.
func (w *Walk) header(id uint64) (page, error) {
	f := w.f
	if id < 2 || id >= f.count {
		return page{}, damaged("page %d is beyond its end, or a meta page", id)
	}
	if cap(w.leaf) < int(f.pageSize) {
		w.leaf = make([]byte, f.pageSize)
	}
	p := page{f, w.leaf[:f.pageSize], int64(id) * f.pageSize}
	if err := f.ReadAt(p.b, p.at); err != nil {
		return page{}, err
	}
	if flags := p.flags(); f.order.Uint64(p.b) != id || flags != leafFlag && flags != branchFlag {
		return page{}, damaged("page %d is invalid", id)
	}
	over := uint64(f.order.Uint32(p.b[12:]))
	if over >= f.count-id {
		return page{}, damaged("page %d reaches beyond the end", id)
	}
	for i := range over + 1 {
		if !w.seen.add(id + i) {
			return page{}, damaged("page %d belongs to two others, or to itself", id+i)
		}
	}
	w.pages += int64(over) + 1
	return p, nil
}

// extent completes a page with its overflow, in a buffer of its own.
func (w *Walk) extent(id uint64, p page, buffer *[]byte, most int64) (page, error) {
	size := (int64(w.f.order.Uint32(p.b[12:])) + 1) * w.f.pageSize
	if size > most {
		return page{}, damaged("page %d has %d bytes", id, size)
	}
	have := len(p.b)
	if int64(cap(*buffer)) < size {
		grown := make([]byte, size)
		copy(grown, p.b)
		*buffer = grown
	} else {
		copy((*buffer)[:size], p.b)
	}
	p.b = (*buffer)[:size]
	if err := w.f.ReadAt(p.b[have:], p.at+int64(have)); err != nil {
		return page{}, err
	}
	if headerSize+p.count()*elementSize > len(p.b) {
		return page{}, damaged("page %d has %d elements in %d bytes", id, p.count(), len(p.b))
	}
	return p, nil
}

// items visits the elements of a leaf page.
func (w *Walk) items(p page, least []byte, any *bool) error {
	end := headerSize + p.count()*elementSize
	if end > len(p.b) {
		return damaged("%d elements are in %d bytes", p.count(), len(p.b))
	}
	for i := range p.count() {
		e := p.element(i)
		order := p.f.order
		keySize, valueSize := order.Uint32(e[8:]), order.Uint32(e[12:])
		data, err := p.slice(i, order.Uint32(e[4:]), keySize, valueSize, &end)
		if err != nil {
			return err
		}
		key := data[:keySize:keySize]
		if *any && bytes.Compare(key, w.last) <= 0 || i == 0 && bytes.Compare(key, least) < 0 {
			return damaged("its keys are not in order: %x", key)
		}
		*any = true
		w.last = append(w.last[:0], key...)
		item := Item{Key: key, Value: data[keySize:], At: p.at + int64(end) - int64(valueSize),
			bucket: order.Uint32(e)&bucketFlag != 0}
		if err := w.visit(item); err != nil {
			return err
		}
	}
	return nil
}

// A page is one with its overflow.
type page struct {
	f *File
	b []byte
	// at is where it is in the file.
	at int64
}

func (p page) flags() uint16 { return p.f.order.Uint16(p.b[8:]) }
func (p page) count() int    { return int(p.f.order.Uint16(p.b[10:])) }

// element returns the i-th element, which must be on the page.
func (p page) element(i int) []byte { return p.b[headerSize+i*elementSize:][:elementSize] }

// slice returns the key and value of the i-th element. They must stand behind
// end, where those of the element before do, and end is moved behind them:
// bbolt writes them one behind the other, and elements that share their bytes
// could be more than there is in the file.
func (p page) slice(i int, position, key, value uint32, end *int) ([]byte, error) {
	from := int64(headerSize+i*elementSize) + int64(position)
	to := from + int64(key) + int64(value)
	if from < int64(*end) || to > int64(len(p.b)) {
		return nil, damaged("element %d of the page at %d is not on it", i, p.at)
	}
	*end = int(to)
	return p.b[from:to:to], nil
}
