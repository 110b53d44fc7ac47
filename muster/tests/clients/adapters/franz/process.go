package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	abortedOneIn = 5
	pollRecords  = 100
	// Retries soon, to find a server that was killed, and for as long as its startup may take.
	backoff        = 20 * time.Millisecond
	requestRetries = 3000
)

// Consumes records, and produces them to another topic. Each poll is a transaction, which includes
// its offsets. One transaction in five is aborted, and contains a record that must never be read.
func (a *adapter) process() {
	leaving, transactions := untilStdinSpeaks(), 0
	for leaving.Err() == nil {
		session := a.session()
		if err := a.processIn(leaving, session, &transactions); err != nil {
			emit("notice", fields{"error": err.Error()})
			time.Sleep(backoff)
		}
		session.Close()
	}
	emit("left", nil)
}

// Runs until it is asked to leave, or the session fails. The next session aborts what is open.
func (a *adapter) processIn(
	leaving context.Context, session *kgo.GroupTransactSession, transactions *int,
) error {
	// The client itself would request its id only when it first produces. But until the id is
	// requested, its predecessor's transaction stays open, the group's offsets are unstable, and
	// there is nothing to produce.
	if _, _, err := session.Client().ProducerID(leaving); err != nil {
		return err
	}
	for leaving.Err() == nil {
		*transactions++
		if err := a.processOnce(leaving, session, *transactions); err != nil {
			return err
		}
	}
	return nil
}

func (a *adapter) session() *kgo.GroupTransactSession {
	options := append(a.common(),
		kgo.TransactionalID(a.option),
		kgo.ConsumerGroup(a.group),
		kgo.ConsumeTopics(a.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
		kgo.Balancers(kgo.RangeBalancer()),
		kgo.SessionTimeout(a.sessionTimeout),
		kgo.HeartbeatInterval(300*time.Millisecond),
		kgo.ProducerLinger(0),
		kgo.RetryBackoffFn(func(int) time.Duration { return backoff }),
		kgo.MetadataMinAge(backoff),
		kgo.RequestRetries(requestRetries),
	)
	session, err := kgo.NewGroupTransactSession(options...)
	check(err)
	return session
}

func (a *adapter) processOnce(
	leaving context.Context, session *kgo.GroupTransactSession, transaction int,
) error {
	fetches := session.PollRecords(leaving, pollRecords)
	fetches.EachError(func(_ string, _ int32, err error) {
		if leaving.Err() == nil {
			emit("notice", fields{"error": err.Error()})
		}
	})
	if fetches.NumRecords() == 0 {
		return nil
	}
	if err := session.Begin(); err != nil {
		return err
	}
	aborted := transaction%abortedOneIn == 0
	failed := a.send(session, fetches, aborted, int64(-transaction))
	end := kgo.TransactionEndTry(!aborted && failed == nil)
	committed, err := session.End(context.Background(), end)
	if err != nil {
		return err
	}
	if committed {
		emit("transacted", nil)
	} else {
		emit("aborted", nil)
	}
	return nil
}

func (a *adapter) send(
	session *kgo.GroupTransactSession, fetches kgo.Fetches, aborted bool, mark int64,
) error {
	topic := a.topic + "-output"
	first := kgo.AbortingFirstErrPromise(session.Client())
	fetches.EachRecord(func(r *kgo.Record) {
		sent := &kgo.Record{Topic: topic, Key: r.Key, Value: r.Value}
		session.Produce(context.Background(), sent, first.Promise())
	})
	if aborted {
		sent := &kgo.Record{Topic: topic, Key: keyOf(mark), Value: valueOf(mark)}
		session.Produce(context.Background(), sent, first.Promise())
	}
	return first.Err()
}
