package aws

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// apiVersion is that of EC2's query protocol.
const apiVersion = "2016-11-15"

// ec2 asks EC2. Credentials and signatures are the SDK's. Nothing is asked
// again here: who asks does that, more and more rarely.
type ec2 struct {
	config   aws.Config
	region   string
	endpoint string
}

// suffixes are the domains of AWS' other partitions, by the beginning of the
// names of their regions.
var suffixes = []struct{ region, domain string }{
	{"cn-", "amazonaws.com.cn"}, {"us-isob-", "sc2s.sgov.gov"}, {"us-iso-", "c2s.ic.gov"}, {"eusc-", "amazonaws.eu"},
}

// endpointOf returns the address of EC2 in a region.
func endpointOf(region string, dualStack bool) string {
	domain := "amazonaws.com"
	if dualStack {
		domain = "api.aws"
	}
	for _, s := range suffixes {
		if strings.HasPrefix(region, s.region) {
			domain = s.domain
		}
	}
	return "https://ec2." + region + "." + domain + "/"
}

// An apiError is EC2's refusal.
type apiError struct {
	Code    string `xml:"Errors>Error>Code"`
	Message string `xml:"Errors>Error>Message"`
}

func (e *apiError) Error() string { return e.Code + ": " + e.Message }

// call makes one call and reads the answer into out.
func (c *ec2) call(ctx context.Context, action string, form url.Values, out any) error {
	form.Set("Action", action)
	form.Set("Version", apiVersion)
	body := form.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint, strings.NewReader(body))
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")
	key, err := c.config.Credentials.Retrieve(ctx)
	if err != nil {
		return fmt.Errorf("%s: credentials: %w", action, err)
	}
	sum := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(ctx, key, req, hex.EncodeToString(sum[:]), "ec2", c.region,
		time.Now()); err != nil {
		return fmt.Errorf("%s: sign: %w", action, err)
	}
	resp, err := c.config.HTTPClient.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return fmt.Errorf("%s: %w", action, err)
	}
	if resp.StatusCode != http.StatusOK {
		e := &apiError{}
		if xml.Unmarshal(text, e) != nil || e.Code == "" {
			e = &apiError{resp.Status, string(bytes.TrimSpace(text[:min(len(text), 300)]))}
		}
		return fmt.Errorf("%s: %w", action, e)
	}
	if err := xml.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: read the answer: %w", action, err)
	}
	return nil
}

// An ebs is a volume, as EC2 describes it.
type ebs struct {
	ID          string       `xml:"volumeId"`
	Attachments []attachment `xml:"attachmentSet>item"`
	Tags        []tag        `xml:"tagSet>item"`
}

type attachment struct {
	Instance string `xml:"instanceId"`
	Device   string `xml:"device"`
	Status   string `xml:"status"`
}

type tag struct {
	Key   string `xml:"key"`
	Value string `xml:"value"`
}

// volumes returns those that the form asks for, of all pages.
func (c *ec2) volumes(ctx context.Context, form url.Values) ([]ebs, error) {
	var all []ebs
	for {
		var page struct {
			Volumes []ebs  `xml:"volumeSet>item"`
			Next    string `xml:"nextToken"`
		}
		if err := c.call(ctx, "DescribeVolumes", form, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Volumes...)
		if page.Next == "" {
			return all, nil
		}
		form.Set("NextToken", page.Next)
	}
}

// An instance is a machine, as EC2 describes it.
type instance struct {
	ID         string `xml:"instanceId"`
	Address    string `xml:"privateIpAddress"`
	Address6   string `xml:"ipv6Address"`
	Interfaces []struct {
		Addresses  []string `xml:"privateIpAddressesSet>item>privateIpAddress"`
		Addresses6 []string `xml:"ipv6AddressesSet>item>ipv6Address"`
	} `xml:"networkInterfaceSet>item"`
}

// instances returns those with the ids. Of an id that is gone there is none.
func (c *ec2) instances(ctx context.Context, ids []string) ([]instance, error) {
	form := url.Values{}
	filter(form, 1, "instance-id", ids...)
	var all []instance
	for {
		var page struct {
			Instances []instance `xml:"reservationSet>item>instancesSet>item"`
			Next      string     `xml:"nextToken"`
		}
		if err := c.call(ctx, "DescribeInstances", form, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Instances...)
		if page.Next == "" {
			return all, nil
		}
		form.Set("NextToken", page.Next)
	}
}

func filter(form url.Values, n int, name string, values ...string) {
	form.Set(fmt.Sprintf("Filter.%d.Name", n), name)
	for i, v := range values {
		form.Set(fmt.Sprintf("Filter.%d.Value.%d", n, i+1), v)
	}
}
