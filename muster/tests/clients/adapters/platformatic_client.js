// @platformatic/kafka behind the adapter protocol (protocol.py describes its arguments, verbs and
// events).
'use strict';

const {
  Admin, Consumer, MessagesStreamFallbackModes, MessagesStreamModes, Producer, stringDeserializers,
  stringSerializers,
} = require('@platformatic/kafka');
const {
  place, option, sessionMs, main, chunks, valueOf, emitRecords, emitAcked, emit, tls, token,
} = require('./protocol');

const SERVER_SIDE = 'consumer-';
const LOOK_MS = 20;
const RETRY_MS = 200;

let { topic, group } = place;
let common = connection();
let producer = null;
let partitions = null;

function connection() {
  const { mechanism, user: username, password } = place;
  const proof = mechanism === 'OAUTHBEARER' ? { token } : { username, password };
  return {
    clientId: 'adapter',
    bootstrapBrokers: [place.bootstrap],
    // The client also retries requests that were refused.
    retries: place.protocol ? 1 : 3,
    tls: tls(),
    sasl: mechanism && { mechanism, ...proof },
  };
}

async function reconnect() {
  await producer?.close();
  producer = null;
  partitions = null;
  ({ topic, group } = place);
  common = connection();
}

const verbs = {
  async create(count) {
    const asked = { topics: [topic], partitions: count, replicas: 1 };
    await withClient(Admin, {}, (admin) => admin.createTopics(asked));
    emit('created', {});
  },

  async produce(first, count) {
    producer ??= new Producer({
      ...common, serializers: stringSerializers, compression: option, retries: 60,
    });
    partitions ??= await partitionsOf();
    for (const ids of chunks(first, count)) await produceChunk(ids);
    emit('produced', {});
  },

  async committed() {
    const asked = await partitionsOf();
    const offsets = await withClient(Consumer, { groupId: group }, (consumer) => (
      consumer.listCommittedOffsets({ topics: [{ topic, partitions: asked }] })));
    const known = offsets.get(topic).map((offset, i) => [asked[i], Number(offset)]);
    emit('offsets', { offsets: Object.fromEntries(known.filter(([, offset]) => offset >= 0)) });
  },

  // The client describes only classic groups. It can list the state of other groups.
  async group_state() {
    const listed = await withClient(Admin, {}, (admin) => (
      admin.listGroups({ types: ['classic', 'consumer'] })));
    const { state, groupType } = listed.get(group);
    if (groupType.toLowerCase() === 'consumer') return emit('group', { state: words(state) });
    const found = await withClient(Admin, {}, (admin) => admin.describeGroups({ groups: [group] }));
    const { protocol, members } = found.get(group);
    return emit('group', { state: words(state), protocol, members: members.size });
  },

  async dump() {
    const config = { groupId: `${group}-dump-${process.pid}`, deserializers: stringDeserializers };
    await withClient(Consumer, config, async (consumer) => {
      const [ends] = [...(await consumer.listOffsets({ topics: [topic] })).values()];
      const open = new Map(ends.map((end, partition) => [partition, Number(end)]));
      for (const [partition, end] of open) if (end === 0) open.delete(partition);
      const stream = await consumer.consume({
        topics: [topic], mode: MessagesStreamModes.EARLIEST, autocommit: false, maxWaitTime: 200,
      });
      for await (const message of stream) {
        emitRecords('log', [message]);
        if (Number(message.offset) + 1 >= open.get(message.partition)) {
          open.delete(message.partition);
        }
        if (open.size === 0) break;
      }
      await stream.close();
    });
    emit('dumped', {});
  },
};

async function produceChunk(ids) {
  const messages = ids.map((id) => (
    { topic, partition: partitions[id % partitions.length], key: `${id}`, value: valueOf(id) }));
  try {
    const { offsets } = await producer.send({ messages });
    emitAcked(messages, offsets.map(({ partition, offset }) => [partition, Number(offset)]));
  } catch (error) {
    emit('failed', { id: ids[0], error: `${error}` });
  }
}

async function partitionsOf() {
  const metadata = await withClient(Admin, {}, (admin) => admin.metadata({ topics: [topic] }));
  return [...metadata.topics.get(topic).partitions.keys()];
}

// The client cannot rejoin its group after every kind of failure (README.md lists those observed). So
// after any failure this starts again with another Consumer.
async function consume(assignor, leave) {
  let isLeaving = false;
  const leaving = leave.then(() => { isLeaving = true; });
  const member = { consumer: null };
  const reports = reportAssignments(member);
  while (!isLeaving) {
    try {
      await consumeUntil(assignor, leaving, member);
    } catch (error) {
      emit('notice', { error: `${error}` });
      await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
    }
  }
  clearInterval(reports);
}

async function consumeUntil(assignor, leaving, member) {
  const assignment = assignor.startsWith(SERVER_SIDE)
    ? { groupProtocol: 'consumer', groupRemoteAssignor: assignor.slice(SERVER_SIDE.length) }
    : { sessionTimeout: sessionMs, heartbeatInterval: 500 };
  const consumer = new Consumer({
    ...common, ...assignment, groupId: group, deserializers: stringDeserializers,
  });
  member.consumer = consumer;
  try {
    await Promise.race([leaving, trouble(consumer), consumeAndRead(consumer)]);
  } catch (error) {
    member.consumer = null;
    drop(consumer);
    throw error;
  }
  await consumer.close(true);
  member.consumer = null;
}

async function consumeAndRead(consumer) {
  const stream = await consumer.consume({
    topics: [topic],
    mode: MessagesStreamModes.COMMITTED,
    fallbackMode: MessagesStreamFallbackModes.EARLIEST,
    autocommit: false,
    maxWaitTime: 200,
  });
  await read(consumer, stream);
  throw new Error('the stream ended');
}

// Rejects at the first sign that the consumer may not be a member any more.
function trouble(consumer) {
  return new Promise((_, reject) => {
    consumer.on('error', reject);
    consumer.on('consumer:heartbeat:error', ({ error }) => reject(error));
    consumer.on('client:broker:disconnect', () => reject(new Error('disconnected')));
  });
}

// Closing sends a request to the coordinator, which may be gone, so this does not wait for it.
function drop(consumer) {
  consumer.close(true).catch((error) => emit('notice', { error: `close: ${error}` }));
}

// The client reports new assignments only in the classic protocol, so this polls.
function reportAssignments(member) {
  let current = [];
  return setInterval(() => {
    const all = member.consumer?.assignments || [];
    const next = all.find((assigned) => assigned.topic === topic)?.partitions || [];
    const revoked = current.filter((partition) => !next.includes(partition));
    const assigned = next.filter((partition) => !current.includes(partition));
    if (revoked.length > 0) emit('revoked', { partitions: revoked });
    if (assigned.length > 0) emit('assigned', { partitions: assigned });
    current = [...next];
  }, LOOK_MS);
}

// Each commit contains what was read while the previous commit was in flight.
async function read(consumer, stream) {
  let waiting = [];
  let busy = null;
  const commitAll = async () => {
    while (waiting.length > 0) {
      const messages = waiting;
      waiting = [];
      emitRecords('records', messages);
      await commit(consumer, messages);
    }
    busy = null;
  };
  for await (const message of stream) {
    waiting.push(message);
    busy ??= commitAll();
  }
  await busy;
}

async function commit(consumer, messages) {
  const after = Object.fromEntries(messages.map((m) => [m.partition, Number(m.offset) + 1]));
  const offsets = Object.entries(after).map(([partition, offset]) => (
    { topic, partition: Number(partition), offset: BigInt(offset), leaderEpoch: -1 }));
  try {
    await consumer.commit({ offsets });
    emit('committed', { offsets: after });
  } catch (error) {
    emit('commit_failed', { error: `${error}` });
  }
}

async function withClient(Kind, config, ask) {
  const client = new Kind({ ...common, ...config });
  try {
    return await ask(client);
  } finally {
    await client.close();
  }
}

// A state in the form of the other clients: "Stable".
function words(state) {
  return state.charAt(0).toUpperCase() + state.slice(1).toLowerCase();
}

main({ consume, verbs, reconnect, close: () => producer?.close() });
