package discovery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

const (
	// service is the type under which daemons announce themselves, by DNS-SD.
	service = "_etcd-manager._tcp.local."
	// clusterField is the field of an announcement that has the cluster's name.
	clusterField = "cluster="
	// questions is how often is asked, answerTime how long answers are waited for.
	questions  = 2
	answerTime = time.Second
	// maxAnswers is how many addresses are looked at: anybody can send any number.
	maxAnswers = 128
	// minAnswerInterval is the least time between two answers. All that ask hear one.
	minAnswerInterval = 100 * time.Millisecond
	// AskLimit is more than asking takes, and connecting to all that answer.
	AskLimit = questions*answerTime + (maxAnswers/scanAtOnce+1)*(connectTime+proveTime)*3/2
	// lifetime is for how long others may believe an answer, in seconds.
	lifetime = 120
)

// Ask returns the daemons of the cluster that answer a question of multicast DNS,
// which no router passes on: addresses that are in no network of this machine's
// interface are left out. Datagrams get lost, so it asks twice.
func (n *Nearby) Ask(ctx context.Context) ([]Seed, error) {
	g, err := n.join()
	if err != nil {
		return nil, err
	}
	defer func() { _ = g.close() }()
	question, err := (&dnsmessage.Message{Questions: []dnsmessage.Question{
		{Name: dnsmessage.MustNewName(service), Type: dnsmessage.TypePTR, Class: dnsmessage.ClassINET},
	}}).Pack()
	if err != nil {
		return nil, err
	}
	var all []netip.AddrPort
	for range questions {
		err := g.send(question)
		if err == nil {
			all, err = n.collect(ctx, g, all)
		}
		if err != nil {
			return nil, fmt.Errorf("ask by multicast on %s: %w", g.nic.Name, err)
		}
	}
	slices.SortFunc(all, netip.AddrPort.Compare)
	return n.proved(ctx, all), context.Cause(ctx)
}

// collect adds the addresses of answers to all, until the time for answers ends.
func (n *Nearby) collect(ctx context.Context, g *group, all []netip.AddrPort) ([]netip.AddrPort, error) {
	if err := g.conn.SetReadDeadline(time.Now().Add(answerTime)); err != nil {
		return all, err
	}
	buffer := make([]byte, maxDatagram)
	for len(all) < maxAnswers && ctx.Err() == nil {
		datagram, err := g.receive(buffer)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		a, ok := n.address(datagram)
		if ok && g.near(a.Addr()) && !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all, context.Cause(ctx)
}

// address returns the one that an answer has, if it is of a daemon of the cluster.
// Of two it is the one of the own family.
func (n *Nearby) address(datagram []byte) (netip.AddrPort, bool) {
	var m dnsmessage.Message
	if m.Unpack(datagram) != nil || !m.Response {
		return netip.AddrPort{}, false
	}
	var own, other netip.Addr
	var port uint16
	daemon, ours := false, false
	for _, r := range slices.Concat(m.Answers, m.Additionals) {
		switch b := r.Body.(type) {
		case *dnsmessage.PTRResource:
			daemon = daemon || strings.EqualFold(r.Header.Name.String(), service)
		case *dnsmessage.SRVResource:
			port = b.Port
		case *dnsmessage.TXTResource:
			ours = ours || slices.Contains(b.TXT, clusterField+n.Cluster)
		case *dnsmessage.AResource:
			n.keep(netip.AddrFrom4(b.A), &own, &other)
		case *dnsmessage.AAAAResource:
			n.keep(netip.AddrFrom16(b.AAAA).Unmap(), &own, &other)
		}
	}
	if !own.IsValid() {
		own = other
	}
	return netip.AddrPortFrom(own, port), daemon && ours && port > 0 && own.IsValid()
}

// keep keeps the first address of each family.
func (n *Nearby) keep(a netip.Addr, own, other *netip.Addr) {
	if a.Is4() != n.Self.Addr().Is4() {
		own = other
	}
	if !own.IsValid() {
		*own = a
	}
}

// Announce begins to answer questions of multicast DNS, until stop is called.
func (n *Nearby) Announce() (stop func() error, err error) {
	g, err := n.join()
	if err != nil {
		return nil, err
	}
	answer, err := n.announcement()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("announce by multicast: %w", err), g.close())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.answerWith(answer)
	}()
	return func() error {
		err := g.close()
		<-done
		return err
	}, nil
}

// announcement returns the answer to all questions.
func (n *Nearby) announcement() ([]byte, error) {
	// A label has no more than 63 bytes, and no dots. Who it is is no secret, and
	// nothing to be believed either.
	sum := sha256.Sum256([]byte(n.Cluster + "\x00" + string(n.Node)))
	label := hex.EncodeToString(sum[:8])
	of, host := dnsmessage.MustNewName(label+"."+service), dnsmessage.MustNewName(label+".local.")
	head := func(name dnsmessage.Name) dnsmessage.ResourceHeader {
		return dnsmessage.ResourceHeader{Name: name, Class: dnsmessage.ClassINET, TTL: lifetime}
	}
	var address dnsmessage.ResourceBody
	if a := n.Self.Addr(); a.Is4() {
		address = &dnsmessage.AResource{A: a.As4()}
	} else {
		address = &dnsmessage.AAAAResource{AAAA: a.As16()}
	}
	return (&dnsmessage.Message{
		Header: dnsmessage.Header{Response: true, Authoritative: true},
		Answers: []dnsmessage.Resource{
			{Header: head(dnsmessage.MustNewName(service)), Body: &dnsmessage.PTRResource{PTR: of}},
		},
		Additionals: []dnsmessage.Resource{
			{Header: head(of), Body: &dnsmessage.SRVResource{Port: n.Self.Port(), Target: host}},
			{Header: head(of), Body: &dnsmessage.TXTResource{TXT: []string{clusterField + n.Cluster}}},
			{Header: head(host), Body: address},
		},
	}).Pack()
}

// answerWith answers questions until the group is closed. It answers all of the group,
// and so nobody who only says that it asks.
func (g *group) answerWith(answer []byte) {
	buffer := make([]byte, maxDatagram)
	var last time.Time
	for {
		datagram, err := g.receive(buffer)
		switch {
		case err != nil:
			select {
			case <-g.closed:
				return
			case <-time.After(answerTime): // the interface may be down for a while
			}
		case asks(datagram) && time.Since(last) >= minAnswerInterval:
			last = time.Now()
			_ = g.send(answer) // who hears nothing asks again
		}
	}
}

// asks reports whether a datagram asks for daemons.
func asks(datagram []byte) bool {
	var m dnsmessage.Message
	return m.Unpack(datagram) == nil && !m.Response && slices.ContainsFunc(m.Questions, func(q dnsmessage.Question) bool {
		return strings.EqualFold(q.Name.String(), service) && (q.Type == dnsmessage.TypePTR || q.Type == dnsmessage.TypeALL)
	})
}
