// The options for a listener with TLS or SASL, from the words of `connect`; and a read that ends.
package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/oauth"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func (a *adapter) connect(words []string) {
	a.closeProducer()
	place := map[string]string{}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		place[key] = value
	}
	a.bootstrap, a.topic, a.group = place["bootstrap"], place["topic"], place["group"]
	a.security = security(place)
	emit("connected", nil)
}

func security(place map[string]string) []kgo.Opt {
	// With the default number of retries, a failure would take minutes.
	options := []kgo.Opt{kgo.RequestRetries(1)}
	if place["ca"] != "" {
		options = append(options, kgo.DialTLSConfig(tlsConfig(place)))
	}
	if place["mechanism"] != "" {
		options = append(options, kgo.SASL(mechanism(place)))
	}
	return options
}

func tlsConfig(place map[string]string) *tls.Config {
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(place["ca"])
	check(err)
	roots.AppendCertsFromPEM(pem)
	config := &tls.Config{RootCAs: roots}
	if place["key"] != "" {
		identity, err := tls.LoadX509KeyPair(place["certificate"], place["key"])
		check(err)
		config.Certificates = []tls.Certificate{identity}
	}
	return config
}

func mechanism(place map[string]string) sasl.Mechanism {
	user, password := place["user"], place["password"]
	switch place["mechanism"] {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	default:
		token, err := os.ReadFile(place["token"])
		check(err)
		return oauth.Auth{Token: strings.TrimSpace(string(token))}.AsMechanism()
	}
}

// For each partition, the offset in the last event.
var committed = map[int32]int64{}

var enough = func(int64) {}

// A context that ends once the sum of the committed offsets reaches a number.
func untilCommitted(count int64) context.Context {
	leaving, leave := context.WithCancel(context.Background())
	clear(committed)
	enough = func(sum int64) {
		if sum >= count {
			leave()
		}
	}
	return leaving
}

func noteCommitted(offsets map[int32]int64) {
	sum := int64(0)
	for partition, offset := range offsets {
		committed[partition] = offset
	}
	for _, offset := range committed {
		sum += offset
	}
	enough(sum)
}
