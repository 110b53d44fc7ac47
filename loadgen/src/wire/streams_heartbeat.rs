//! StreamsGroupHeartbeat version 0, which `kafka-protocol` 0.18 lacks.

use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes, VersionRange};

use super::{Header, Malformed, STREAMS_HEARTBEAT, Unwritable, body, framed_other, shape};
use crate::member::{StreamsHeartbeat, StreamsHeartbeatAnswer, TaskIds};
use crate::member::{StreamsJoining as Joining, StreamsTasks as Tasks};
use crate::plan::{InternalTopic, Partition, Subtopology, Topology};

pub const STREAMS_HEARTBEAT_VERSIONS: VersionRange = VersionRange { min: 0, max: 0 };
/// The versions of the headers around flexible messages.
const REQUEST_HEADER: i16 = 2;
const RESPONSE_HEADER: i16 = 1;
/// No value in a request: a null string or array, or an absent structure.
const NULL: u8 = 0;
const ABSENT: u8 = 0xff;
const PRESENT: u8 = 1;
const NO_TAGS: u8 = 0;
const NO_TIMEOUT: i32 = -1;
/// The replication factor that leaves it to the cluster.
const CLUSTERS: i16 = -1;

/// Appends the frame of the request.
///
/// # Errors
/// If it is too long.
pub(super) fn write_streams_heartbeat(
    out: &mut Vec<u8>,
    header: &Header<'_>,
    request: &StreamsHeartbeat,
) -> Result<(), Unwritable> {
    framed_other(out, |out| {
        let head = RequestHeader::default()
            .with_request_api_key(STREAMS_HEARTBEAT)
            .with_request_api_version(header.version)
            .with_correlation_id(header.correlation)
            .with_client_id(Some(StrBytes::from_string(header.client_id.to_owned())));
        let encoded = head.encode(out, REQUEST_HEADER);
        Writer(out).request(request);
        encoded
    })
}

/// Decodes the answer in a frame (without its length).
///
/// # Errors
/// If it is not an answer in this version.
pub(super) fn read_streams_heartbeat(
    version: i16,
    frame: &[u8],
) -> Result<StreamsHeartbeatAnswer, Malformed> {
    let mut rest = frame;
    ResponseHeader::decode(&mut rest, RESPONSE_HEADER).map_err(body)?;
    shape::check(STREAMS_HEARTBEAT, version, rest)
        .map_err(|error| Malformed::Body(error.into()))?;
    Reader(rest).answer().ok_or_else(|| Malformed::Body("the answer ends too early".into()))
}

struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    fn request(&mut self, request: &StreamsHeartbeat) {
        self.string(&request.group_id);
        self.string(&request.member_id);
        self.i32(request.member_epoch);
        self.i32(request.endpoint_information_epoch);
        self.byte(NULL); // instance id
        self.optional(request.rack_id.as_ref());
        let joins = request.joins.as_ref();
        self.i32(joins.map_or(NO_TIMEOUT, |joins| joins.rebalance_timeout_ms));
        match joins {
            Some(joins) => self.topology(&joins.topology),
            None => self.byte(ABSENT),
        }
        self.owned(request.owned.as_ref());
        self.process(joins);
        self.byte(NULL); // task offsets
        self.byte(NULL); // task end offsets
        self.byte(request.shutdown_application.into());
        self.byte(NO_TAGS);
    }

    fn process(&mut self, joins: Option<&Joining>) {
        self.optional(joins.map(|joins| &joins.process_id));
        match joins.and_then(|joins| joins.endpoint.as_ref()) {
            Some((host, port)) => {
                self.byte(PRESENT);
                self.string(host);
                self.0.extend(port.to_be_bytes());
                self.byte(NO_TAGS);
            }
            None => self.byte(ABSENT),
        }
        match joins {
            Some(_) => self.length(0), // client tags
            None => self.byte(NULL),
        }
    }

    fn topology(&mut self, topology: &Topology) {
        self.byte(PRESENT);
        self.i32(0); // epoch
        self.length(topology.subtopologies.len());
        for (number, subtopology) in topology.subtopologies.iter().enumerate() {
            self.subtopology(number, subtopology);
        }
        self.byte(NO_TAGS);
    }

    fn subtopology(&mut self, number: usize, it: &Subtopology) {
        self.string(&number.to_string());
        self.strings(&it.sources);
        self.length(0); // source patterns
        let changelog = [("cleanup.policy", "compact")];
        self.topics(&it.changelogs, &changelog);
        self.strings(&it.sinks);
        let repartition = [("cleanup.policy", "delete"), ("retention.ms", "-1")];
        self.topics(&it.repartitions, &repartition);
        self.length(usize::from(it.copartitioned));
        if it.copartitioned {
            self.indexes(it.sources.len());
            self.length(0); // source patterns
            self.indexes(it.repartitions.len());
            self.byte(NO_TAGS);
        }
        self.byte(NO_TAGS);
    }

    fn topics(&mut self, topics: &[InternalTopic], configs: &[(&str, &str)]) {
        self.length(topics.len());
        for topic in topics {
            self.string(&topic.name);
            self.i32(topic.partitions as i32);
            self.i16(CLUSTERS);
            self.length(configs.len());
            for (key, value) in configs {
                self.string(key);
                self.string(value);
                self.byte(NO_TAGS);
            }
            self.byte(NO_TAGS);
        }
    }

    fn indexes(&mut self, count: usize) {
        self.length(count);
        (0..count).for_each(|index| self.i16(index as i16));
    }

    fn owned(&mut self, owned: Option<&Tasks>) {
        let lists = owned.map(|tasks| [&tasks.active, &tasks.standby, &tasks.warmup]);
        match lists {
            Some(lists) => lists.into_iter().for_each(|tasks| self.tasks(tasks)),
            None => self.0.extend([NULL; 3]),
        }
    }

    fn tasks(&mut self, tasks: &[Partition]) {
        let by_subtopology = || tasks.chunk_by(|one, other| one.topic == other.topic);
        self.length(by_subtopology().count());
        for some in by_subtopology() {
            self.string(&some[0].topic.0.to_string());
            self.length(some.len());
            some.iter().for_each(|task| self.i32(task.number as i32));
            self.byte(NO_TAGS);
        }
    }

    fn strings(&mut self, all: &[String]) {
        self.length(all.len());
        all.iter().for_each(|one| self.string(one));
    }

    fn optional(&mut self, text: Option<&StrBytes>) {
        match text {
            Some(text) => self.string(text),
            None => self.byte(NULL),
        }
    }

    fn string(&mut self, text: &str) {
        self.length(text.len());
        self.0.extend(text.as_bytes());
    }

    /// The length of a string or an array, plus one.
    fn length(&mut self, length: usize) {
        let mut rest = length + 1;
        while rest >= 0x80 {
            self.byte(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.byte(rest as u8);
    }

    fn i32(&mut self, number: i32) {
        self.0.extend(number.to_be_bytes());
    }

    fn i16(&mut self, number: i16) {
        self.0.extend(number.to_be_bytes());
    }

    fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }
}

/// Reads a body whose lengths have been checked.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn answer(mut self) -> Option<StreamsHeartbeatAnswer> {
        self.i32()?; // throttle time
        let (error_code, error_message) = (self.i16()?, self.string()?);
        let member_id = self.string()?.unwrap_or_default();
        let (member_epoch, heartbeat_interval_ms) = (self.i32()?, self.i32()?);
        self.i32()?; // acceptable recovery lag
        self.i32()?; // task offset interval
        let statuses = self.array(|it| {
            let status = (it.byte()? as i8, it.string()?.unwrap_or_default());
            it.tags().map(|()| status)
        })?;
        Some(StreamsHeartbeatAnswer {
            error_code,
            error_message,
            member_id,
            member_epoch,
            heartbeat_interval_ms,
            statuses: statuses.unwrap_or_default(),
            active: self.array(Self::task_ids)?,
            standby: self.array(Self::task_ids)?,
            warmup: self.array(Self::task_ids)?,
            endpoint_information_epoch: self.i32()?,
        })
    }

    fn task_ids(&mut self) -> Option<TaskIds> {
        let subtopology = self.string()?.unwrap_or_default();
        let partitions = self.array(Self::i32)?.unwrap_or_default();
        self.tags().map(|()| TaskIds { subtopology, partitions })
    }

    fn array<T>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Option<Vec<T>>> {
        let Some(length) = self.length()? else { return Some(None) };
        let mut all = Vec::with_capacity(length);
        for _ in 0..length {
            all.push(element(self)?);
        }
        Some(Some(all))
    }

    fn string(&mut self) -> Option<Option<StrBytes>> {
        let Some(length) = self.length()? else { return Some(None) };
        let text = String::from_utf8_lossy(self.take(length)?).into_owned();
        Some(Some(StrBytes::from_string(text)))
    }

    fn tags(&mut self) -> Option<()> {
        for _ in 0..self.uvarint()? {
            self.uvarint()?;
            let size = self.uvarint()?;
            self.take(size)?;
        }
        Some(())
    }

    fn length(&mut self) -> Option<Option<usize>> {
        self.uvarint().map(|length| length.checked_sub(1))
    }

    fn uvarint(&mut self) -> Option<usize> {
        let mut value = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            value |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn i32(&mut self) -> Option<i32> {
        self.take(4)?.try_into().ok().map(i32::from_be_bytes)
    }

    fn i16(&mut self) -> Option<i16> {
        self.take(2)?.try_into().ok().map(i16::from_be_bytes)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1)?.first().copied()
    }

    fn take(&mut self, size: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(size)?;
        self.0 = rest;
        Some(taken)
    }
}
