//! The steps of a letter, from the share partition to its queue and back.

use super::batch::{self, Wanted};
use super::queue::{self, Queue};
use super::records::sources;
use super::{
    ANSWER_MS, ATTEMPTS_MAX, BACKOFF_MAX_MS, BACKOFF_MS, Delivery, Dropped, Place, Sources, Step,
};
use crate::mailbox::{Created, DeadLetters, DeadLettersAdded, Message};
use crate::partitions::{PartitionId, ShareRead, ShareReadEnd};
use crate::shares::{Inputs, ReadFor, Shares};
use muster_codec::ErrorCode;
use muster_coordinator::MissingTopic;
use std::sync::Arc;

/// The most bytes of source records that are read at once.
const READ_BYTES: u32 = 1 << 20;

impl Shares {
    /// Hands over the letters of share partitions, and tries those again that are due.
    pub(crate) fn letters_turn(&mut self, inputs: &mut Inputs<'_>) {
        while let Some(key) = self.open.next_lettered() {
            let settings = self.config(inputs, &key.group_id).settings;
            let Some((letters, opening)) = self.open.take_letters(&key, &settings) else {
                continue;
            };
            for letter in letters {
                let (step, next) = (Step::At(inputs.times.now), letter.first);
                let key = key.clone();
                let delivery = Delivery { key, opening, letter, next, failed: 0, step };
                self.letters.add(delivery);
            }
        }
        for group in self.letters.due(inputs.times.now) {
            let step = self.letters.first_of(&group).map(|it| &it.step);
            match step {
                Some(Step::At(_)) => self.begin_letter(inputs, &group),
                // The controller or the other shard has not answered, and may have done it.
                Some(Step::Creating(..) | Step::Sent { .. } | Step::Reading(_)) | None => {
                    self.letter_failed(inputs, &group, ErrorCode::RequestTimedOut);
                }
            }
        }
    }

    /// Batches that partitions of this shard have appended, or refused.
    pub(crate) fn letters_appended(&mut self, inputs: &mut Inputs<'_>) -> bool {
        let appended = std::mem::take(&mut self.letters.appended);
        let is_idle = appended.is_empty();
        for (number, error) in appended {
            let Some((to, number)) = self.letters.appending.remove(&number) else { continue };
            let added = DeadLettersAdded { number, error };
            if to == self.shard {
                self.letters_added(inputs, &added);
            } else {
                self.letters.outbox.push((to, Message::DeadLettersAdded(added)));
            }
        }
        !is_idle
    }

    /// A shard sends a batch for a queue that this one leads.
    pub(crate) fn append_letters(&mut self, inputs: &mut Inputs<'_>, letters: &DeadLetters) {
        let number = self.letters.next_number(self.first_number);
        self.letters.appending.insert(number, (letters.from, letters.number));
        let id = PartitionId { topic: letters.topic_id, index: letters.partition };
        let wall = inputs.times.wall;
        inputs.partitions.append_letters(wall, number, (id, &letters.batch), inputs.effects);
    }

    /// The leader of a queue has answered.
    pub(crate) fn letters_added(&mut self, inputs: &mut Inputs<'_>, added: &DeadLettersAdded) {
        let Some(group) = self.letters.take_awaited(added.number) else { return };
        let Some(delivery) = self.letters.first_of(&group) else { return };
        let Step::Sent { upto, .. } = delivery.step else { return };
        if added.error != ErrorCode::None {
            self.counters.dead_letter_requests_failed += 1;
            return self.letter_failed(inputs, &group, added.error);
        }
        let count = (upto - delivery.next + 1).unsigned_abs();
        (delivery.next, delivery.failed) = (upto + 1, 0);
        let is_whole = upto >= delivery.letter.last;
        self.counters.dead_letters += count;
        if is_whole {
            self.letter_ended(inputs, &group);
        } else {
            self.begin_letter(inputs, &group);
        }
    }

    /// The controller has created topics, or not; true if a letter has waited for one of them.
    pub(crate) fn topics_created(&mut self, inputs: &mut Inputs<'_>, created: &Created) -> bool {
        let mut is_awaited = false;
        for topic in &created.topics {
            let failed = created.failed.iter().find(|(name, _)| name == topic);
            for group in self.letters.awaiting_topic(topic) {
                is_awaited = true;
                match failed {
                    Some((_, why)) if inputs.image.topic(topic).is_none() => {
                        self.drop_letter(inputs, &group, why);
                    }
                    _ => self.begin_letter(inputs, &group),
                }
            }
        }
        is_awaited
    }

    /// Messages for other shards.
    pub(crate) fn take_mail(&mut self) -> Vec<(u32, Message)> {
        std::mem::take(&mut self.letters.outbox)
    }

    /// Topics that the controller is to create; [`Shares::topics_created`] has the outcome.
    pub(crate) fn take_wanted_topics(&mut self) -> Vec<MissingTopic> {
        std::mem::take(&mut self.letters.wanted_topics)
    }

    /// Whether letters have ended since changes were written: they are to be written again.
    pub(crate) fn has_late_archives(&self) -> bool {
        self.letters.have_ended
    }

    /// The letters that were dropped since the last call, for the log.
    pub(crate) fn take_dropped_letters(&mut self) -> Dropped {
        std::mem::take(&mut self.letters.dropped)
    }

    /// Begins the next batch of a group's letter.
    fn begin_letter(&mut self, inputs: &mut Inputs<'_>, group: &Arc<str>) {
        let config = self.config(inputs, group);
        let (name, copies) = (Arc::clone(&config.dead_letter_topic), config.copies_dead_letters);
        let Some(delivery) = self.letters.first_of(group) else { return };
        let (key, next, last) = (delivery.key.clone(), delivery.next, delivery.letter.last);
        let place = match queue::find(inputs, group, &name, key.partition) {
            Ok(Queue::There(place)) => place,
            Ok(Queue::Missing(topic)) => {
                delivery.step = Step::Creating(name, inputs.times.now + ANSWER_MS);
                return self.letters.wanted_topics.push(topic);
            }
            Err(why) => return self.drop_letter(inputs, group, &why),
        };
        if !copies {
            let sources = Sources { records: Vec::new(), upto: Some(last) };
            return self.send_letter(inputs, group, &place, &sources);
        }
        self.last_read += 1;
        let number = self.last_read;
        delivery.step = Step::Reading(number);
        self.reads.insert(number, ReadFor::Letter(Arc::clone(group)));
        let read = ShareRead {
            number,
            id: PartitionId { topic: key.topic_id, index: key.partition },
            offset: next,
            reads_committed: false,
            max_bytes: READ_BYTES,
            first_whole: true,
        };
        inputs.partitions.read_for_share(read, inputs.effects);
    }

    /// Source records of a letter were read.
    pub(in crate::shares) fn letter_read(
        &mut self,
        inputs: &mut Inputs<'_>,
        (group, number): (&Arc<str>, u64),
        end: ShareReadEnd,
    ) {
        let name = Arc::clone(&self.config(inputs, group).dead_letter_topic);
        let Some(delivery) = self.letters.first_of(group) else { return };
        if !matches!(delivery.step, Step::Reading(reading) if reading == number) {
            return;
        }
        let (next, last) = (delivery.next, delivery.letter.last);
        let place = match queue::find(inputs, group, &name, delivery.key.partition) {
            Ok(Queue::There(place)) => place,
            Ok(Queue::Missing(_)) | Err(_) => return self.begin_letter(inputs, group),
        };
        let sources = match end {
            ShareReadEnd::Records { data, .. } => sources(&data, (next, last), place.max_bytes),
            ShareReadEnd::Nothing | ShareReadEnd::Failed | ShareReadEnd::Offset(_) => {
                Sources::default()
            }
        };
        self.send_letter(inputs, group, &place, &sources);
    }

    /// Sends a batch to the leader of the queue.
    fn send_letter(
        &mut self,
        inputs: &mut Inputs<'_>,
        group: &Arc<str>,
        place: &Place,
        sources: &Sources,
    ) {
        let number = self.letters.next_number(self.first_number);
        let Some(delivery) = self.letters.first_of(group) else { return };
        let Delivery { key, letter, next, .. } = delivery;
        let id = key.topic_id.to_string();
        let source = inputs.image.topic_by_id(key.topic_id);
        let (batch, upto) = batch::batch(&Wanted {
            key,
            topic: source.map_or(&id, |topic| &topic.name),
            letter: *letter,
            first: *next,
            last: sources.upto.unwrap_or(letter.last),
            copied: &sources.records,
            now: inputs.times.wall.0,
            max_bytes: place.max_bytes,
        });
        delivery.step = Step::Sent { number, upto, until: inputs.times.now + ANSWER_MS };
        self.letters.awaited.insert(number, Arc::clone(group));
        self.counters.dead_letter_requests += 1;
        let Place { topic_id, partition, leader, .. } = *place;
        let letters = DeadLetters { from: self.shard, number, topic_id, partition, batch };
        if leader == self.shard {
            self.append_letters(inputs, &letters);
        } else {
            self.letters.outbox.push((leader, Message::DeadLetters(letters)));
        }
    }

    /// A step of a letter has failed: it is tried again if the reason may be over soon.
    fn letter_failed(&mut self, inputs: &Inputs<'_>, group: &Arc<str>, error: ErrorCode) {
        let Some(delivery) = self.letters.first_of(group) else { return };
        let step = std::mem::replace(&mut delivery.step, Step::At(0));
        delivery.failed += 1;
        let failed = delivery.failed;
        if is_retried(error) && failed <= ATTEMPTS_MAX {
            let wait = BACKOFF_MS << (failed - 1);
            delivery.step = Step::At(inputs.times.now + wait.min(BACKOFF_MAX_MS));
        } else {
            self.drop_letter(inputs, group, &format!("{error:?}"));
        }
        // A late answer is for none.
        if let Step::Sent { number, .. } = step {
            self.letters.take_awaited(number);
        }
    }

    fn drop_letter(&mut self, inputs: &Inputs<'_>, group: &Arc<str>, why: &str) {
        let Some(delivery) = self.letters.first_of(group) else { return };
        let Delivery { key, next, letter, .. } = delivery;
        let count = (letter.last - *next + 1).unsigned_abs();
        let source = inputs.image.topic_by_id(key.topic_id).map(|topic| Arc::clone(&topic.name));
        let source = source.unwrap_or_else(|| key.topic_id.to_string().into());
        let (next, last, partition) = (*next, letter.last, key.partition);
        self.counters.dead_letters_dropped += count;
        let dropped = &mut self.letters.dropped;
        if dropped.count == 0 {
            dropped.first = format!(
                "records {next} to {last} of {source}-{partition} in share group {group:?}: {why}"
            );
        }
        dropped.count += count;
        self.letter_ended(inputs, group);
    }

    /// The letter of a group that is under way has ended, well or not: its records are archived,
    /// and the next letter begins with the next turn.
    fn letter_ended(&mut self, inputs: &Inputs<'_>, group: &Arc<str>) {
        let Some(Delivery { key, opening, letter, .. }) = self.letters.take_first(group) else {
            return;
        };
        if let Some(next) = self.letters.first_of(group) {
            next.step = Step::At(inputs.times.now);
        }
        if self.open.opening(&key) == Some(opening) {
            self.open.on(&key, |it| it.letter_ended(letter.first, letter.last));
            self.letters.have_ended = true;
        }
    }
}

/// The errors after which Kafka tries again.
fn is_retried(error: ErrorCode) -> bool {
    matches!(error, ErrorCode::NotLeaderOrFollower | ErrorCode::RequestTimedOut)
}
