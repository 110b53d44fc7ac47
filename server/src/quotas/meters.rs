//! Measures how much of their quotas clients use, on one shard.

use super::rate::{Rate, Window};
use super::tokens::Tokens;
use super::{Entity, Limit, QuotaKey};
use std::collections::{HashMap, VecDeque};

/// The maximum number of meters, about 5 MB. Beyond it the least recently used meters are dropped.
const METERS_MAX: usize = 10_000;

/// The meters of entities with quotas. A meter that was not used for a whole window equals a new
/// one, so it is dropped.
#[derive(Debug)]
pub struct Meters<M> {
    window: Window,
    meters: HashMap<(QuotaKey, Entity), Used<M>>,
    /// All meters, in a queue. Each entry has the time at which its meter had last been used when
    /// the entry was added.
    queue: VecDeque<(i64, (QuotaKey, Entity))>,
}

#[derive(Debug)]
struct Used<M> {
    at: i64,
    meter: M,
}

/// Meters for rates of bytes, time or connections.
pub type Rates = Meters<Rate>;

/// Meters for changes of topics: token buckets.
pub type Buckets = Meters<Tokens>;

impl<M> Meters<M> {
    pub fn new(window: Window) -> Self {
        Self { window, meters: HashMap::new(), queue: VecDeque::new() }
    }

    pub fn window(&self) -> Window {
        self.window
    }

    fn of(&mut self, key: QuotaKey, of: &Entity, now: i64, new: impl FnOnce() -> M) -> &mut M {
        let key = (key, of.clone());
        if !self.meters.contains_key(&key) {
            self.make_room(now);
            self.queue.push_back((now, key.clone()));
        }
        let used = self.meters.entry(key).or_insert_with(|| Used { at: now, meter: new() });
        used.at = now;
        &mut used.meter
    }

    /// Makes room for a meter: drops the meters at the front of the queue that equal new meters,
    /// and others if there are still too many. A meter that was used since it was queued is queued
    /// again instead.
    fn make_room(&mut self, now: i64) {
        let is_over = |at: i64| now - at >= self.window.total_ms();
        while let Some((at, _)) = self.queue.front()
            && (is_over(*at) || self.meters.len() >= METERS_MAX)
            && let Some((queued_at, key)) = self.queue.pop_front()
        {
            match self.meters.get(&key) {
                Some(used) if used.at > queued_at => self.queue.push_back((used.at, key)),
                _ => drop(self.meters.remove(&key)),
            }
        }
    }
}

impl Rates {
    /// Records what a client has used.
    pub fn record(&mut self, key: QuotaKey, limit: &Limit, value: f64, now: i64) {
        let window = self.window;
        self.of(key, &limit.of, now, Rate::default).record(window, value, now);
    }

    /// How long the client must wait, in ms.
    pub fn delay_ms(&mut self, key: QuotaKey, limit: &Limit, now: i64) -> i64 {
        let window = self.window;
        self.of(key, &limit.of, now, Rate::default).delay_ms(window, limit.bound.get(), now)
    }
}

impl Buckets {
    /// Takes tokens, even more than there are.
    pub fn take(&mut self, key: QuotaKey, limit: &Limit, tokens: f64, now: i64) {
        let window = self.window;
        let bucket = self.of(key, &limit.of, now, || Tokens::full(now));
        bucket.take(window, limit.bound.get(), tokens, now);
    }

    /// How long the client must wait, in ms.
    pub fn delay_ms(&mut self, key: QuotaKey, limit: &Limit, now: i64) -> i64 {
        let window = self.window;
        let bucket = self.of(key, &limit.of, now, || Tokens::full(now));
        bucket.delay_ms(window, limit.bound.get(), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quotas::{Bound, Name};

    fn limit(client: &str) -> Limit {
        Limit { bound: Bound::from(10), of: Entity::Client(Name::of(client)) }
    }

    fn record(rates: &mut Rates, client: &str, value: f64, now: i64) {
        rates.record(QuotaKey::ProducerByteRate, &limit(client), value, now);
    }

    fn delay(rates: &mut Rates, client: &str, now: i64) -> i64 {
        rates.delay_ms(QuotaKey::ProducerByteRate, &limit(client), now)
    }

    fn rates() -> Rates {
        Rates::new(Window::default())
    }

    #[test]
    fn clients_and_rates_are_measured_apart() {
        let mut rates = rates();
        record(&mut rates, "a", 200.0, 0);
        assert_eq!(delay(&mut rates, "a", 0), 10_000);
        assert_eq!(delay(&mut rates, "b", 0), 0);
        assert_eq!(rates.delay_ms(QuotaKey::ConsumerByteRate, &limit("a"), 0), 0);
    }

    #[test]
    fn meters_are_forgotten_in_the_order_of_their_last_use() {
        let mut rates = rates();
        record(&mut rates, "first", 200.0, 0);
        (1..METERS_MAX).for_each(|n| record(&mut rates, &n.to_string(), 200.0, 1));
        record(&mut rates, "first", 0.0, 2);
        record(&mut rates, "one more", 200.0, 3);
        assert_eq!((rates.meters.len(), rates.queue.len()), (METERS_MAX, METERS_MAX));
        assert_eq!(delay(&mut rates, "1", 3), 0, "it was used longest ago");
        assert_eq!(delay(&mut rates, "first", 3), 9_997);
        record(&mut rates, "much later", 1.0, 60_000);
        assert_eq!((rates.meters.len(), rates.queue.len()), (1, 1));
    }
}
