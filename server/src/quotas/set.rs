//! All quotas of a cluster, and which quota applies to a client.

use super::{Entity, Name, QuotaKey};
use imbl::OrdMap;

/// The maximum of a rate; it is at least 0.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Bound(f64);

/// The value is never NaN.
impl Eq for Bound {}

impl From<u32> for Bound {
    fn from(rate: u32) -> Self {
        Self(rate.into())
    }
}

impl Bound {
    /// None for NaN and negative numbers.
    pub fn new(rate: f64) -> Option<Self> {
        (rate >= 0.0).then_some(Self(rate))
    }

    pub fn get(self) -> f64 {
        self.0
    }
}

/// The quotas of one entity, by key.
pub type Bounds = [Option<Bound>; QuotaKey::ALL.len()];

/// The quotas of a cluster. Clones share the data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientQuotas(OrdMap<Entity, Bounds>);

/// A quota that applies to a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    pub bound: Bound,
    /// The clients that share the quota. The default quota is not shared: each name to which it
    /// applies has it for itself.
    pub of: Entity,
}

impl ClientQuotas {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The number of entities with quotas.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the two are the same version. Only pointers are compared, so false does not mean
    /// that the data differ.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.0.ptr_eq(&other.0)
    }

    /// All entities in order, each with at least one quota.
    pub fn iter(&self) -> impl Iterator<Item = (&Entity, &Bounds)> {
        self.0.iter()
    }

    pub fn of(&self, entity: &Entity) -> Option<&Bounds> {
        self.0.get(entity)
    }

    pub fn get(&self, entity: &Entity, key: QuotaKey) -> Option<Bound> {
        self.of(entity)?[key as usize]
    }

    /// Sets or removes a quota.
    pub fn set(&mut self, entity: Entity, key: QuotaKey, bound: Option<Bound>) {
        let mut bounds = self.of(&entity).copied().unwrap_or_default();
        bounds[key as usize] = bound;
        if bounds.iter().all(Option::is_none) {
            self.0.remove(&entity);
        } else {
            self.0.insert(entity, bounds);
        }
    }

    /// The quota that applies to a client: the most specific one. A quota of a user takes
    /// precedence over a quota of a client id (`ClientQuotaManager`). A client without an id has
    /// only quotas of its user.
    pub fn limit_of_client(&self, key: QuotaKey, user: &str, client_id: &str) -> Option<Limit> {
        let (user, client) = (Name::of(user), Name::of(client_id));
        let has_client = !client_id.is_empty();
        [&user, &Name::Default]
            .into_iter()
            .find_map(|asked| self.limit_of_user(key, asked, &user, &client, has_client))
            .or_else(|| {
                let asked = [client.clone(), Name::Default].into_iter().filter(|_| has_client);
                let bound = asked.map(Entity::Client).find_map(|it| self.get(&it, key))?;
                Some(Limit { bound, of: Entity::Client(client.clone()) })
            })
    }

    /// The quota of a user, as it is set for `asked`: the user itself, or the default user.
    fn limit_of_user(
        &self,
        key: QuotaKey,
        asked: &Name,
        user: &Name,
        client: &Name,
        has_client: bool,
    ) -> Option<Limit> {
        let clients = [client.clone(), Name::Default].into_iter().filter(|_| has_client);
        let with_client = clients
            .map(|it| Entity::UserAndClient(asked.clone(), it))
            .find_map(|it| self.get(&it, key));
        if let Some(bound) = with_client {
            let of = Entity::UserAndClient(user.clone(), client.clone());
            return Some(Limit { bound, of });
        }
        let bound = self.get(&Entity::User(asked.clone()), key)?;
        Some(Limit { bound, of: Entity::User(user.clone()) })
    }

    /// The quota that applies to an address.
    pub fn limit_of_address(&self, key: QuotaKey, address: &str) -> Option<Limit> {
        let address = Entity::Ip(Name::of(address));
        let bound =
            self.get(&address, key).or_else(|| self.get(&Entity::Ip(Name::Default), key))?;
        Some(Limit { bound, of: address })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use QuotaKey::{ConnectionCreationRate, ProducerByteRate, RequestPercentage};

    fn user(name: &str) -> Entity {
        Entity::User(Name::of(name))
    }

    fn both(user: Name, client: Name) -> Entity {
        Entity::UserAndClient(user, client)
    }

    /// Adds quotas from the lowest precedence in Kafka to the highest: each overrides all earlier
    /// ones.
    #[test]
    fn the_most_special_quota_holds() {
        let (alice, app) = (|| Name::of("alice"), || Name::of("app"));
        let of_both = both(alice(), app());
        let steps = [
            (Entity::Client(Name::Default), Entity::Client(app())),
            (Entity::Client(app()), Entity::Client(app())),
            (Entity::User(Name::Default), user("alice")),
            (both(Name::Default, Name::Default), of_both.clone()),
            (both(Name::Default, app()), of_both.clone()),
            (user("alice"), user("alice")),
            (both(alice(), Name::Default), of_both.clone()),
            (both(alice(), app()), of_both),
        ];
        let mut quotas = ClientQuotas::default();
        for (place, (entity, of)) in steps.into_iter().enumerate() {
            let bound = Bound(place as f64 + 1.0);
            quotas.set(entity, ProducerByteRate, Some(bound));
            let limit = quotas.limit_of_client(ProducerByteRate, "alice", "app");
            assert_eq!(limit, Some(Limit { bound, of }));
        }
        assert_eq!(quotas.limit_of_client(RequestPercentage, "alice", "app"), None);
        let other = quotas.limit_of_client(ProducerByteRate, "bob", "").unwrap();
        assert_eq!((other.bound, other.of), (Bound(3.0), user("bob")));
    }

    #[test]
    fn an_address_has_its_own_quota_or_the_default() {
        let mut quotas = ClientQuotas::default();
        quotas.set(Entity::Ip(Name::Default), ConnectionCreationRate, Some(Bound(5.0)));
        quotas.set(Entity::Ip(Name::of("10.0.0.1")), ConnectionCreationRate, Some(Bound(7.0)));
        let bound =
            |address: &str| quotas.limit_of_address(ConnectionCreationRate, address).unwrap().bound;
        assert_eq!((bound("10.0.0.1"), bound("10.0.0.2")), (Bound(7.0), Bound(5.0)));
    }

    #[test]
    fn an_entity_without_quotas_is_gone() {
        let mut quotas = ClientQuotas::default();
        quotas.set(user("alice"), ProducerByteRate, Some(Bound(1.0)));
        quotas.set(user("alice"), RequestPercentage, Some(Bound(2.0)));
        quotas.set(user("alice"), ProducerByteRate, None);
        assert_eq!(quotas.len(), 1);
        quotas.set(user("alice"), RequestPercentage, None);
        assert!(quotas.is_empty());
    }
}
