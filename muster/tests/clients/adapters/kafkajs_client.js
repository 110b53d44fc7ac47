// kafkajs behind the adapter protocol (protocol.py describes its arguments, verbs and events).
'use strict';

const { CompressionCodecs, CompressionTypes, Kafka, Partitioners, logLevel } = require('kafkajs');
const {
  place, option, sessionMs, main, chunks, valueOf, emitRecords, emitAcked, emit, tls, token,
} = require('./protocol');

CompressionCodecs[CompressionTypes.Snappy] = require('kafkajs-snappy');

const ASSIGNORS = { roundrobin: require('kafkajs').PartitionAssigners.roundRobin };
const COMPRESSIONS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
};

let { topic, group } = place;
let kafka = makeKafka();
const partitionOf = new Map(); // by id: the partition that kafkajs's partitioner chose
let producer = null;

function makeKafka() {
  return new Kafka({
    brokers: [place.bootstrap],
    ssl: tls(),
    sasl: sasl(),
    // kafkajs tries five times, with longer and longer waits, whatever the error is.
    retry: { retries: place.protocol ? 1 : 5 },
    logLevel: logLevel.ERROR,
    logCreator: () => ({ log: { timestamp, message, error } }) => {
      console.error(`${timestamp} ${message} ${error || ''}`);
    },
  });
}

function sasl() {
  const { mechanism, user: username, password } = place;
  if (mechanism === 'OAUTHBEARER') {
    return { mechanism: 'oauthbearer', oauthBearerProvider: async () => ({ value: token() }) };
  }
  return mechanism && { mechanism: mechanism.toLowerCase(), username, password };
}

async function reconnect() {
  await producer?.disconnect();
  producer = null;
  ({ topic, group } = place);
  kafka = makeKafka();
}

const verbs = {
  async create(partitions) {
    const topics = [{ topic, numPartitions: partitions, replicationFactor: 1 }];
    await withAdmin((admin) => admin.createTopics({ topics }));
    emit('created', {});
  },

  async produce(first, count) {
    producer ??= await connectedProducer();
    for (const ids of chunks(first, count)) await produceChunk(ids);
    emit('produced', {});
  },

  // Aborts a transaction, commits another, and then reads the committed records.
  async transact() {
    const name = `${topic}-transactions`;
    await withAdmin((a) => a.createTopics({ topics: [{ topic: name, numPartitions: 1 }] }));
    const transactional = kafka.producer({
      transactionalId: group, idempotent: true, maxInFlightRequests: 1,
    });
    await transactional.connect();
    for (const [first, end] of [[0, 'abort'], [10, 'commit']]) {
      const transaction = await transactional.transaction();
      const ids = Array.from({ length: 10 }, (_, index) => first + index);
      const messages = ids.map((id) => ({ key: `${id}`, value: valueOf(id) }));
      await transaction.send({ topic: name, messages });
      const partitions = [{ partition: 0, offset: `${first + 10}` }];
      const topics = [{ topic: name, partitions }];
      await transaction.sendOffsets({ consumerGroupId: `${group}-transactions`, topics });
      await transaction[end]();
    }
    await transactional.disconnect();
    emit('transacted', { ids: await readCommitted(name), offset: await committedOffset(name) });
  },

  async committed() {
    const found = await withAdmin((a) => a.fetchOffsets({ groupId: group, topics: [topic] }));
    const known = found[0].partitions.filter(({ offset }) => offset !== '-1');
    const offsets = known.map(({ partition, offset }) => [partition, Number(offset)]);
    emit('offsets', { offsets: Object.fromEntries(offsets) });
  },

  async group_state() {
    const { groups: [found] } = await withAdmin((admin) => admin.describeGroups([group]));
    const { state, protocol, members } = found;
    emit('group', { state, protocol, members: members.length });
  },

  // kafkajs cannot read without a group, so a separate group reads everything. By default it reads
  // only committed records.
  async dump() {
    const ends = await withAdmin((admin) => admin.fetchTopicOffsets(topic));
    const open = new Map(ends.map(({ partition, high }) => [partition, Number(high)]));
    for (const [partition, end] of open) if (end === 0) open.delete(partition);
    const consumer = kafka.consumer({ groupId: `${group}-dump-${process.pid}` });
    await consumer.connect();
    await consumer.subscribe({ topics: [topic], fromBeginning: true });
    await new Promise((resolve, reject) => {
      consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
      consumer.run({
        autoCommit: false,
        eachBatch: async ({ batch }) => {
          emitBatch('log', batch);
          if (Number(batch.lastOffset()) + 1 >= open.get(batch.partition)) {
            open.delete(batch.partition);
          }
          if (open.size === 0) resolve();
        },
      }).catch(reject);
    });
    await consumer.disconnect();
    emit('dumped', {});
  },
};

// The offset that the transaction has committed.
async function committedOffset(name) {
  for (;;) {
    const asked = { groupId: `${group}-transactions`, topics: [name] };
    const [{ partitions }] = await withAdmin((a) => a.fetchOffsets(asked));
    const found = Number(partitions[0].offset);
    if (found >= 0) return found;
  }
}

async function readCommitted(name) {
  const consumer = kafka.consumer({ groupId: `${group}-committed-${process.pid}` });
  await consumer.connect();
  await consumer.subscribe({ topics: [name], fromBeginning: true });
  const ids = [];
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error));
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ message }) => {
        ids.push(Number(message.key));
        if (ids.length >= 10) resolve();
      },
    }).catch(reject);
  });
  await consumer.disconnect();
  return ids;
}

async function connectedProducer() {
  const created = kafka.producer({
    createPartitioner: () => {
      const choose = Partitioners.DefaultPartitioner();
      return (args) => {
        const partition = choose(args);
        partitionOf.set(args.message.key, partition);
        return partition;
      };
    },
  });
  await created.connect();
  return created;
}

async function produceChunk(ids) {
  const messages = ids.map((id) => ({ key: `${id}`, value: valueOf(id) }));
  try {
    const batches = await producer.send({ topic, messages, compression: COMPRESSIONS[option] });
    const sent = messages.map(({ key }) => ({ key, partition: partitionOf.get(key) }));
    emitAcked(sent, batches.map((b) => [b.partition, Number(b.baseOffset)]));
  } catch (error) {
    emit('failed', { id: ids[0], error: `${error}` });
  }
}

async function consume(assignor, leaving) {
  const consumer = kafka.consumer({
    groupId: group,
    sessionTimeout: sessionMs,
    heartbeatInterval: 500,
    maxWaitTimeInMs: 200,
    partitionAssigners: [ASSIGNORS[assignor]],
  });
  reportAssignments(consumer);
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const eachBatch = ({ batch }) => consumeBatch(consumer, batch);
  await consumer.run({ autoCommit: false, eachBatch });
  await leaving;
  await consumer.disconnect();
}

function reportAssignments(consumer) {
  let current = [];
  const revoke = () => {
    emit('revoked', { partitions: current });
    current = [];
  };
  consumer.on(consumer.events.REBALANCING, revoke);
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    revoke();
    current = payload.memberAssignment[topic] || [];
    emit('assigned', { partitions: current });
  });
}

async function consumeBatch(consumer, batch) {
  emitBatch('records', batch);
  const offset = Number(batch.lastOffset()) + 1;
  try {
    await consumer.commitOffsets([{ topic, partition: batch.partition, offset: `${offset}` }]);
    emit('committed', { offsets: { [batch.partition]: offset } });
  } catch (error) {
    // kafkajs would end if this were rethrown. Its next heartbeat shows how to continue.
    emit('commit_failed', { error: `${error}` });
  }
}

// Retries after a retriable error: kafkajs itself gives up while a coordinator is loading.
async function withAdmin(ask) {
  const admin = kafka.admin();
  const deadline = Date.now() + 20_000;
  await admin.connect();
  try {
    for (;;) {
      try {
        return await ask(admin);
      } catch (error) {
        if (!error.retriable || Date.now() > deadline) throw error;
        await new Promise((resolve) => setTimeout(resolve, 100));
      }
    }
  } finally {
    await admin.disconnect();
  }
}

function emitBatch(event, { partition, messages }) {
  emitRecords(event, messages.map((message) => ({ ...message, partition })));
}

main({ consume, verbs, reconnect, close: () => producer?.disconnect() });
