package main

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	shareRecords = 50
	sharePause   = 200 * time.Millisecond
	flushAtMost  = 20 * time.Second
	accept       = "accept"
)

// A member of a share group. It reports the records that it acquires, how it will acknowledge them,
// and then which acknowledgements the server has confirmed. harness/share.py lists its options.
type sharer struct {
	client  *kgo.Client
	words   []string
	leaving context.Context

	mutex   sync.Mutex
	answers map[int32]error // by partition, since the last flush; an error stays
}

// A record, its delivery count and its requested acknowledgement.
type acquired [5]any

func (a *adapter) share() {
	s := &sharer{words: strings.Split(a.option, "-"), leaving: untilStdinSpeaks()}
	s.client = a.client(append(s.options(),
		kgo.ShareGroup(a.group),
		kgo.ConsumeTopics(a.topic),
		kgo.ShareMaxRecords(shareRecords),
		kgo.ShareAckCallback(s.answered),
		kgo.RetryBackoffFn(func(int) time.Duration { return backoff }),
		kgo.MetadataMinAge(backoff),
	)...)
	last := []*kgo.Record{}
	for s.leaving.Err() == nil {
		last = s.work(last)
	}
	s.finish(last)
	s.client.Close()
	emit("left", nil)
}

func (s *sharer) options() []kgo.Opt {
	if s.is("record_limit") {
		return []kgo.Opt{kgo.ShareMaxRecordsStrict()}
	}
	return nil
}

func (s *sharer) is(word string) bool { return slices.Contains(s.words, word) }

// Returns the records that are not acknowledged yet. A poll accepts the records of the previous poll,
// unless they were acknowledged before. FlushAcks waits for the answers.
func (s *sharer) work(last []*kgo.Record) []*kgo.Record {
	soon, cancel := context.WithTimeout(s.leaving, sharePause)
	defer cancel()
	fetches := s.client.PollRecords(soon, shareRecords)
	fetches.EachError(func(_ string, _ int32, err error) {
		if soon.Err() == nil {
			emit("notice", fields{"error": err.Error()})
		}
	})
	if len(last) > 0 {
		s.flush(last)
	}
	polled := fetches.Records()
	if len(polled) == 0 {
		return nil
	}
	if s.is("hold") {
		s.hold(polled)
		return s.accepted(polled)
	}
	s.say(polled, s.verdict)
	if !s.is("explicit") {
		return polled
	}
	s.acknowledge(polled)
	return nil
}

func (s *sharer) acknowledge(polled []*kgo.Record) {
	renewed := []*kgo.Record{}
	for _, r := range polled {
		if s.verdict(r) == "renew" {
			r.Ack(kgo.AckRenew)
			renewed = append(renewed, r)
		}
	}
	if len(renewed) > 0 {
		s.wait()
		s.say(renewed, s.last)
	}
	for _, r := range polled {
		r.Ack(statuses[s.last(r)])
	}
	s.flush(polled)
}

var statuses = map[string]kgo.AckStatus{
	"accept": kgo.AckAccept, "release": kgo.AckRelease, "reject": kgo.AckReject,
}

// Holds the records until it is time to leave.
func (s *sharer) hold(polled []*kgo.Record) {
	s.say(polled, func(*kgo.Record) string {
		if s.is("renew") {
			return "renew"
		}
		return "hold"
	})
	for s.leaving.Err() == nil {
		time.Sleep(sharePause)
		if s.is("renew") {
			s.client.MarkAcks(kgo.AckRenew, polled...)
			s.wait()
		}
	}
}

// Accepts the held records, and reports them again with this verdict.
func (s *sharer) accepted(polled []*kgo.Record) []*kgo.Record {
	s.say(polled, func(*kgo.Record) string { return accept })
	s.client.MarkAcks(kgo.AckAccept, polled...)
	s.flush(polled)
	return nil
}

// Before it leaves, accepts the records that an implicit poll would have accepted.
func (s *sharer) finish(last []*kgo.Record) {
	if len(last) > 0 {
		s.client.MarkAcks(kgo.AckAccept, last...)
		s.flush(last)
	}
}

// The verdict on a record, which depends on its id and its delivery count.
func (s *sharer) verdict(r *kgo.Record) string {
	if s.is("explicit") && s.is("renew") && idOf(r)%10 == 3 {
		return "renew"
	}
	return s.last(r)
}

func (s *sharer) last(r *kgo.Record) string {
	id := idOf(r)
	switch {
	case !s.is("explicit"):
		return accept
	case id%10 == 0:
		return "reject"
	case id%10 == 1 && r.DeliveryCount() == 1, id%50 == 2:
		return "release"
	default:
		return accept
	}
}

// The client reports only the partition, so an error makes all its records uncertain.
func (s *sharer) answered(_ *kgo.Client, results kgo.ShareAckResults) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.answers == nil {
		s.answers = map[int32]error{}
	}
	for _, result := range results {
		if s.answers[result.Partition] == nil {
			s.answers[result.Partition] = result.Err
		}
	}
}

func (s *sharer) wait() map[int32]error {
	ctx, cancel := context.WithTimeout(context.Background(), flushAtMost)
	defer cancel()
	err := s.client.FlushAcks(ctx)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	answers := s.answers
	s.answers = nil
	if err != nil {
		emit("notice", fields{"error": err.Error()})
		return nil
	}
	return answers
}

func (s *sharer) flush(records []*kgo.Record) {
	answers := s.wait()
	confirmed, refused, reason := [][2]int64{}, [][2]int64{}, ""
	for _, r := range records {
		err, answered := answers[r.Partition]
		place := [2]int64{int64(r.Partition), r.Offset}
		switch {
		case err != nil:
			refused, reason = append(refused, place), err.Error()
		case answered:
			confirmed = append(confirmed, place)
		}
	}
	if len(confirmed) > 0 {
		emit("confirmed", fields{"records": confirmed})
	}
	if len(refused) > 0 {
		emit("refused", fields{"records": refused, "error": reason})
	}
}

func (s *sharer) say(polled []*kgo.Record, verdict func(*kgo.Record) string) {
	all := []acquired{}
	for _, r := range polled {
		all = append(all,
			acquired{idOf(r), r.Partition, r.Offset, r.DeliveryCount(), verdict(r)})
	}
	emit("acquired", fields{"records": all})
}
