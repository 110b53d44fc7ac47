//! A client that sets and removes the quotas of other clients: on bytes, and on changes of topics.

use super::{NextRequest, Surroundings};
use crate::random::Random;
use muster_codec::messages::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, QuotaAlteration, QuotaEntity, QuotaOp,
};
use muster_codec::{ErrorCode, Response};
use muster_server::cluster::ClusterImage;
use muster_server::quotas::{Entity, Name, QuotaKey};
use std::collections::BTreeSet;

const VERSION: i16 = 1;

/// The client ids with quotas.
pub(crate) const LIMITED: [Limited; 3] = [
    Limited {
        client_id: "producer",
        key: QuotaKey::ProducerByteRate,
        name: "producer_byte_rate",
        bounds: [20_000, 40_000],
    },
    Limited {
        client_id: "reader",
        key: QuotaKey::ConsumerByteRate,
        name: "consumer_byte_rate",
        bounds: [20_000, 40_000],
    },
    Limited {
        client_id: "admin",
        key: QuotaKey::ControllerMutationRate,
        name: "controller_mutation_rate",
        bounds: [1, 3],
    },
];

/// A client id, the quota that it may get, and the range of the quota's values.
pub(crate) struct Limited {
    pub(crate) client_id: &'static str,
    key: QuotaKey,
    name: &'static str,
    bounds: [u32; 2],
}

/// The value of each quota; None if the client id has no quota.
pub(crate) type Quotas = [Option<u32>; LIMITED.len()];

#[derive(Debug)]
pub(crate) struct Limiter {
    /// The values that each quota may have.
    possible: [BTreeSet<Option<u32>>; LIMITED.len()],
    doing: Option<(usize, Option<u32>)>,
    set: u64,
    removed: u64,
}

impl Limiter {
    pub(crate) fn new() -> Self {
        let possible = std::array::from_fn(|_| [None].into());
        Self { possible, doing: None, set: 0, removed: 0 }
    }

    /// How many answered requests set a quota, and how many removed one.
    pub(crate) fn counts(&self) -> [u64; 2] {
        [self.set, self.removed]
    }

    /// Checks that each quota of the cluster has one of the values that it may have.
    ///
    /// # Errors
    /// The quotas contradict earlier answers.
    pub(crate) fn check(&self, image: &ClusterImage) -> Result<(), String> {
        let found = quotas_of(image);
        let wrong = |at: &usize| !self.possible[*at].contains(&found[*at]);
        match (0..LIMITED.len()).find(wrong) {
            Some(at) => {
                let (name, possible) = (LIMITED[at].name, &self.possible[at]);
                Err(format!("{name} is {:?}, possible is {possible:?}", found[at]))
            }
            None => Ok(()),
        }
    }

    pub(super) fn next_request(&mut self, around: &mut Surroundings<'_>) -> NextRequest {
        let random = &mut *around.random;
        let (at, value) = change(random);
        // The change may be made from now on.
        self.possible[at].insert(value);
        self.doing = Some((at, value));
        let entity = QuotaEntity {
            entity_type: "client-id".into(),
            entity_name: Some(LIMITED[at].client_id.into()),
        };
        let op = QuotaOp {
            key: LIMITED[at].name.into(),
            value: value.unwrap_or_default().into(),
            remove: value.is_none(),
        };
        let entries = vec![QuotaAlteration { entity: vec![entity], ops: vec![op] }];
        let request = AlterClientQuotasRequest { entries, validate_only: false };
        let shard = random.below(u64::from(around.placement.shards)) as u32;
        NextRequest { shard, version: VERSION, request: request.into() }
    }

    pub(super) fn answered(&mut self, response: Option<&Response<'_>>) -> Result<(), String> {
        let doing = self.doing.take();
        let (Some((at, value)), Some(response)) = (doing, response) else { return Ok(()) };
        let code = match response {
            Response::AlterClientQuotas(AlterClientQuotasResponse { entries, .. }) => {
                entries.first().map(|it| it.error_code)
            }
            _ => None,
        };
        match code {
            Some(0) => {
                self.possible[at] = [value].into();
                *if value.is_some() { &mut self.set } else { &mut self.removed } += 1;
                Ok(())
            }
            // The controller was loaded again: the change may have been made, or not.
            Some(code) if code == ErrorCode::UnknownServerError.code() => Ok(()),
            code => Err(format!("a change of quotas is refused with {code:?}")),
        }
    }
}

fn change(random: &mut Random) -> (usize, Option<u32>) {
    let at = random.below(LIMITED.len() as u64) as usize;
    let bound = random.pick(&LIMITED[at].bounds);
    (at, random.chance(0.7).then_some(bound))
}

/// The quotas of an image.
pub(crate) fn quotas_of(image: &ClusterImage) -> Quotas {
    let quotas = image.client_quotas();
    std::array::from_fn(|at| {
        let Limited { client_id, key, .. } = LIMITED[at];
        let bound = quotas.get(&Entity::Client(Name::of(client_id)), key);
        bound.map(|bound| bound.get() as u32)
    })
}
