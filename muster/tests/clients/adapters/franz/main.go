// franz-go behind the adapter protocol (protocol.py describes its arguments, verbs and events).
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const chunk = 100

var padding = strings.Repeat("x", 100)

var balancers = map[string]kgo.GroupBalancer{
	"range":              kgo.RangeBalancer(),
	"roundrobin":         kgo.RoundRobinBalancer(),
	"sticky":             kgo.StickyBalancer(),
	"cooperative-sticky": kgo.CooperativeStickyBalancer(),
	// Assignors of the server (KIP-848). franz-go requests the one that matches its balancer.
	"consumer-uniform": kgo.StickyBalancer(),
	"consumer-range":   kgo.RangeBalancer(),
}

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

type adapter struct {
	bootstrap, topic, group, option string
	sessionTimeout                  time.Duration
	producer                        *kgo.Client
	security                        []kgo.Opt
}

// A record in the runner's form: its id, partition and offset.
type record [3]int64

func main() {
	log.SetFlags(log.Ltime | log.Lmicroseconds)
	millis, err := strconv.Atoi(os.Args[6])
	check(err)
	a := &adapter{os.Args[2], os.Args[3], os.Args[4], os.Args[5],
		time.Duration(millis) * time.Millisecond, nil, nil}
	switch os.Args[1] {
	case "consume":
		a.consume(a.option, untilStdinSpeaks())
	case "process":
		a.process()
	case "share":
		a.share()
	default:
		a.control()
	}
}

func (a *adapter) control() {
	emit("ready", nil)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		a.obey(words[0], words[1:])
	}
	a.closeProducer()
}

func (a *adapter) closeProducer() {
	if a.producer != nil {
		a.producer.Close()
		a.producer = nil
	}
}

func (a *adapter) obey(verb string, words []string) {
	switch verb {
	case "create":
		check(a.create(number(words[0])))
		emit("created", nil)
	case "produce":
		a.produce(number(words[0]), number(words[1]))
	case "connect":
		a.connect(words)
	case "read":
		a.consume(words[0], untilCommitted(int64(number(words[1]))))
	case "be_refused":
		if err := a.create(1); err != nil {
			emit("refused", fields{"error": err.Error()})
		}
	case "committed":
		a.committed()
	case "group_state":
		a.groupState()
	case "dump":
		a.dump()
	case "transact":
		a.transact()
	default:
		log.Fatalf("no verb %q", verb)
	}
}

func number(word string) int {
	number, err := strconv.Atoi(word)
	check(err)
	return number
}

func (a *adapter) create(partitions int) error {
	admin := kadm.NewClient(a.client())
	defer admin.Close()
	_, err := admin.CreateTopic(context.Background(), int32(partitions), 1, nil, a.topic)
	return err
}

// Aborts a transaction, commits another, and then reads the committed records.
func (a *adapter) transact() {
	ctx, topic := context.Background(), a.topic+"-transactions"
	producer, err := kgo.NewClient(kgo.SeedBrokers(a.bootstrap), kgo.TransactionalID(a.group),
		kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation())
	check(err)
	for half, end := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		check(producer.BeginTransaction())
		for id := half * 10; id < half*10+10; id++ {
			sent := &kgo.Record{Key: fmt.Append(nil, id), Value: valueOf(int64(id))}
			check(producer.ProduceSync(ctx, sent).FirstErr())
		}
		a.commitInTransaction(producer, topic, int64(half*10+10))
		check(producer.EndTransaction(ctx, end))
	}
	producer.Close()
	offset := a.committedIn(a.group+"-transactions", topic)
	emit("transacted", fields{"ids": a.readCommitted(topic), "offset": offset})
}

// franz-go commits what a transactional session has consumed. This sends the request directly.
func (a *adapter) commitInTransaction(producer *kgo.Client, topic string, offset int64) {
	ctx := context.Background()
	id, epoch, err := producer.ProducerID(ctx)
	check(err)
	topics, err := kadm.NewClient(producer).ListTopics(ctx, topic)
	check(err)
	partition := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	partition.Offset = offset
	of := kmsg.NewTxnOffsetCommitRequestTopic()
	of.Topic, of.TopicID = topic, topics[topic].ID
	of.Partitions = []kmsg.TxnOffsetCommitRequestTopicPartition{partition}
	request := kmsg.NewPtrTxnOffsetCommitRequest()
	request.TransactionalID, request.Group = a.group, a.group+"-transactions"
	request.ProducerID, request.ProducerEpoch = id, epoch
	request.Topics = []kmsg.TxnOffsetCommitRequestTopic{of}
	response, err := request.RequestWith(ctx, producer)
	check(err)
	check(kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode))
}

// The offset that a transaction has committed, which may take a moment after its end.
func (a *adapter) committedIn(group, topic string) int64 {
	admin := kadm.NewClient(a.client())
	defer admin.Close()
	for {
		found, err := admin.FetchOffsets(context.Background(), group)
		check(err)
		if offset, ok := found.Lookup(topic, 0); ok && offset.At >= 0 {
			return offset.At
		}
	}
}

func (a *adapter) readCommitted(topic string) []int {
	begin := map[int32]kgo.Offset{0: kgo.NewOffset().AtStart()}
	consumer, err := kgo.NewClient(kgo.SeedBrokers(a.bootstrap),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: begin}))
	check(err)
	defer consumer.Close()
	ids := []int{}
	for len(ids) < 10 {
		consumer.PollFetches(context.Background()).EachRecord(func(r *kgo.Record) {
			id, err := strconv.Atoi(string(r.Key))
			check(err)
			ids = append(ids, id)
		})
	}
	return ids
}

func (a *adapter) produce(first, count int) {
	if a.producer == nil {
		a.producer = a.client(kgo.ProducerBatchCompression(codecs[a.option]))
	}
	for start := first; start < first+count; start += chunk {
		a.produceChunk(start, min(start+chunk, first+count))
	}
	emit("produced", nil)
}

func (a *adapter) produceChunk(start, end int) {
	var mutex sync.Mutex
	acked := []record{}
	for id := start; id < end; id++ {
		sent := &kgo.Record{Topic: a.topic, Key: fmt.Append(nil, id), Value: valueOf(int64(id))}
		a.producer.Produce(context.Background(), sent, func(r *kgo.Record, err error) {
			if err != nil {
				emit("failed", fields{"id": id, "error": err.Error()})
				return
			}
			mutex.Lock()
			defer mutex.Unlock()
			acked = append(acked, record{int64(id), int64(r.Partition), r.Offset})
		})
	}
	check(a.producer.Flush(context.Background()))
	emit("acked", fields{"records": acked})
}

func (a *adapter) committed() {
	admin := kadm.NewClient(a.client())
	defer admin.Close()
	found, err := admin.FetchOffsets(context.Background(), a.group)
	check(err)
	check(found.Error())
	offsets := map[int32]int64{}
	found.Each(func(o kadm.OffsetResponse) { offsets[o.Partition] = o.At })
	emit("offsets", fields{"offsets": offsets})
}

func (a *adapter) groupState() {
	admin := kadm.NewClient(a.client())
	defer admin.Close()
	described, err := admin.DescribeGroups(context.Background(), a.group)
	check(err)
	found, err := described.On(a.group, nil)
	check(err)
	if errors.Is(found.Err, kerr.GroupIDNotFound) {
		a.consumerGroupState(admin)
		return
	}
	check(found.Err)
	emit("group", fields{
		"state": found.State, "protocol": found.Protocol, "members": len(found.Members),
	})
}

// The state of a group of the new protocol (KIP-848), which another request describes.
func (a *adapter) consumerGroupState(admin *kadm.Client) {
	described, err := admin.DescribeConsumerGroups(context.Background(), a.group)
	check(err)
	found := described[a.group]
	check(found.Err)
	emit("group", fields{
		"state": found.State, "protocol": found.AssignorName, "members": len(found.Members),
	})
}

func (a *adapter) dump() {
	admin := kadm.NewClient(a.client())
	defer admin.Close()
	ends, err := admin.ListEndOffsets(context.Background(), a.topic)
	check(err)
	check(ends.Error())
	starts := map[int32]kgo.Offset{}
	open := map[int32]int64{}
	ends.Each(func(end kadm.ListedOffset) {
		starts[end.Partition] = kgo.NewOffset().AtStart()
		if end.Offset > 0 {
			open[end.Partition] = end.Offset
		}
	})
	client := a.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{a.topic: starts}))
	defer client.Close()
	for len(open) > 0 {
		fetches := client.PollFetches(context.Background())
		check(fetches.Err())
		emit("log", fields{"records": records(fetches)})
		fetches.EachRecord(func(r *kgo.Record) {
			if r.Offset+1 >= open[r.Partition] {
				delete(open, r.Partition)
			}
		})
	}
	emit("dumped", nil)
}

func (a *adapter) consume(assignor string, leaving context.Context) {
	options := []kgo.Opt{
		kgo.ConsumerGroup(a.group),
		kgo.ConsumeTopics(a.topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.Balancers(balancers[assignor]),
		kgo.SessionTimeout(a.sessionTimeout),
		kgo.HeartbeatInterval(500 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsAssigned(report("assigned")),
		kgo.OnPartitionsRevoked(report("revoked")),
		kgo.OnPartitionsLost(report("revoked")),
	}
	if strings.HasPrefix(assignor, "consumer-") {
		options = append(options, kgo.ServerSideBalancer())
	}
	client := a.client(options...)
	for leaving.Err() == nil {
		consumeOnce(leaving, client)
	}
	client.CloseAllowingRebalance()
	emit("left", nil)
}

// A context that ends with the first line on stdin, or with its end.
func untilStdinSpeaks() context.Context {
	leaving, leave := context.WithCancel(context.Background())
	go func() {
		bufio.NewScanner(os.Stdin).Scan()
		leave()
	}()
	return leaving
}

func consumeOnce(leaving context.Context, client *kgo.Client) {
	defer client.AllowRebalance()
	fetches := client.PollFetches(leaving)
	fetches.EachError(func(_ string, _ int32, err error) {
		if leaving.Err() == nil {
			emit("notice", fields{"error": err.Error()})
		}
	})
	if fetches.NumRecords() == 0 {
		return
	}
	emit("records", fields{"records": records(fetches)})
	offsets := map[int32]int64{}
	fetches.EachRecord(func(r *kgo.Record) { offsets[r.Partition] = r.Offset + 1 })
	if err := client.CommitRecords(context.Background(), fetches.Records()...); err != nil {
		emit("commit_failed", fields{"error": err.Error()})
		return
	}
	emit("committed", fields{"offsets": offsets})
	noteCommitted(offsets)
}

func report(event string) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, topics map[string][]int32) {
		for _, partitions := range topics {
			emit(event, fields{"partitions": partitions})
		}
	}
}

func (a *adapter) client(options ...kgo.Opt) *kgo.Client {
	client, err := kgo.NewClient(append(options, a.common()...)...)
	check(err)
	return client
}

func (a *adapter) common() []kgo.Opt {
	logger := kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, func() string {
		return time.Now().Format("15:04:05.000 ")
	})
	return append([]kgo.Opt{kgo.SeedBrokers(a.bootstrap), kgo.WithLogger(logger)}, a.security...)
}

// The records of a poll. A record that differs from what was written ends the adapter.
func records(fetches kgo.Fetches) []record {
	all := []record{}
	fetches.EachRecord(func(r *kgo.Record) {
		all = append(all, record{idOf(r), int64(r.Partition), r.Offset})
	})
	return all
}

func idOf(r *kgo.Record) int64 {
	id, err := strconv.ParseInt(string(r.Key), 10, 64)
	check(err)
	if string(r.Value) != string(valueOf(id)) {
		log.Fatalf("record %d came back as %q", id, r.Value)
	}
	return id
}

func keyOf(id int64) []byte { return fmt.Append(nil, id) }

func valueOf(id int64) []byte { return fmt.Appendf(nil, "%d %s", id, padding) }

type fields map[string]any

var stdout sync.Mutex

func emit(event string, with fields) {
	if with == nil {
		with = fields{}
	}
	with["event"] = event
	line, err := json.Marshal(with)
	check(err)
	stdout.Lock()
	defer stdout.Unlock()
	fmt.Printf("%s\n", line)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
