//! Calls the judge for the quotas of clients.

use crate::client::{LIMITED, Raw, read_response};
use crate::coverage::Seen;
use crate::judge::throttling::{Answered, check_limited, check_produce};
use crate::net::{Asked, LinkId, Owner};
use crate::world::{Machine, World};
use muster_codec::{ErrorCode, Response};

/// The place of the quotas of each kind of client in [`LIMITED`].
const PRODUCER: usize = 0;
const READER: usize = 1;
const ADMIN: usize = 2;

/// The clocks of shards count milliseconds.
const MS: u64 = 1_000;

impl<M: Machine> World<M> {
    /// The client id of a raw client. Some client ids have quotas.
    pub(crate) fn client_id(&self, client: u32) -> &'static str {
        limited(self.clients.raw(client)).map_or("raw", |at| LIMITED[at].client_id)
    }

    /// Notes that a client has sent a request to a shard.
    pub(crate) fn note_sent(&mut self, client: u32, shard: u32, bytes: usize) {
        let now = self.sim.now();
        if limited(self.clients.raw(client)) == Some(PRODUCER) {
            self.judge.used(shard).sent(now, bytes);
        }
    }
}

impl World {
    /// Checks an answer that leaves a shard: it must not leave before the end of a throttle time,
    /// and its own throttle time must be possible.
    pub(crate) fn judge_throttling(&mut self, shard: u32, id: LinkId, asked: &Asked, frame: &[u8]) {
        let Owner::Client(client) = self.network.link(id).owner() else { return };
        let Ok(mut response) = read_response(asked.api, asked.version, frame) else { return };
        let (now, muted_until) = (self.sim.now(), self.network.link(id).muted_until());
        if now + MS < muted_until {
            return self.sim.violate(format_args!(
                "link {}: #{} is answered {} us before the end of its throttle time",
                id.0,
                asked.correlation,
                muted_until - now
            ));
        }
        let throttle_ms = response.throttle_time_ms().map_or(0, |ms| *ms);
        if throttle_ms > 0 {
            self.sim.saw(Seen::Throttled);
            let until = asked.sent + throttle_ms.unsigned_abs() as u64 * MS;
            self.network.link_mut(id).mute(until);
            self.fail_throttling(shard);
        }
        if let Err(what) = self.check_throttling((shard, client), asked, &response, throttle_ms) {
            let request = format!("API {} v{} #{}", asked.api, asked.version, asked.correlation);
            self.sim.violate(format_args!("client {client}, {request}: {what}"));
        }
    }

    fn check_throttling(
        &mut self,
        (shard, client): (u32, u32),
        asked: &Asked,
        response: &Response<'_>,
        throttle_ms: i32,
    ) -> Result<(), String> {
        let at = limited(self.clients.raw(client));
        match (at, response) {
            (Some(PRODUCER), Response::Produce(_)) => {
                let now = self.sim.now();
                let bounds = self.judge.bounds(shard, PRODUCER, asked.sent);
                let used = self.judge.used(shard);
                let (sent, bytes) = (asked.sent, asked.frame.len());
                let answered = Answered { sent, now, bytes, throttle_ms };
                let checked = check_produce(&bounds, used, answered);
                if bounds.iter().all(Option::is_some) {
                    used.counted(answered);
                }
                checked
            }
            (Some(READER), Response::Fetch(body)) => {
                if throttle_ms > 0 && !body.responses.is_empty() {
                    return Err("a throttled fetch has records".to_owned());
                }
                check_limited(&self.judge.bounds(shard, READER, asked.sent), throttle_ms > 0)
            }
            (Some(ADMIN), response) => {
                let is_refused = is_refused(response);
                self.sim.add(Seen::ChangeRefused, u64::from(is_refused));
                // The controller decides by its own image, which may be newer or older than this
                // shard's.
                let all = self.judge.bounds_of_all(ADMIN, asked.sent);
                check_limited(&all, throttle_ms > 0 || is_refused)
            }
            (_, _) => check_limited(&[], throttle_ms > 0),
        }
    }
}

/// The place of a client's quota in [`LIMITED`].
fn limited(raw: &Raw) -> Option<usize> {
    match raw {
        Raw::Producer(_) => Some(PRODUCER),
        Raw::Reader(_) => Some(READER),
        Raw::Admin(_) => Some(ADMIN),
        Raw::TopicCreator(_)
        | Raw::Committer(_)
        | Raw::Several(_)
        | Raw::Converter(_)
        | Raw::Granter(_)
        | Raw::Limiter(_)
        | Raw::User(_)
        | Raw::Transactor(_)
        | Raw::Sharer(_)
        | Raw::Meddler(_)
        | Raw::Hostile(_) => None,
    }
}

/// Whether a change of topics is refused because of its quota.
fn is_refused(response: &Response<'_>) -> bool {
    let codes: Vec<i16> = match response {
        Response::CreateTopics(it) => it.topics.iter().map(|it| it.error_code).collect(),
        Response::CreatePartitions(it) => it.results.iter().map(|it| it.error_code).collect(),
        Response::DeleteTopics(it) => it.responses.iter().map(|it| it.error_code).collect(),
        _ => Vec::new(),
    };
    codes.contains(&ErrorCode::ThrottlingQuotaExceeded.code())
}
