//! The steps of a letter, from the share partition to its queue and back.

use super::batch::{self, Wanted};
use super::queue::{self, Queue};
use super::records::sources;
use super::schedule::Step;
use super::{
    ANSWER_MS, ATTEMPTS_MAX, BACKOFF_MAX_MS, BACKOFF_MS, Delivery, Dropped, LETTER_RECORDS_MAX,
    NO_SPACE_MS, Place, Sources,
};
use crate::mailbox::{Created, DeadLetters, DeadLettersAdded, ToShares};
use crate::partitions::{LettersEnd, NewLetters, PartitionId, Reader, RecordRead, RecordReadEnd};
use crate::shares::{Inputs, ReadFor, Shares};
use muster_codec::ErrorCode;
use muster_coordinator::MissingTopic;
use muster_shares::{SharePartitionKey, Taken};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// The maximum size of one read of source records.
const READ_BYTES: u32 = 1 << 20;

impl Shares {
    /// Takes new letters from share partitions, and does the next step of letters that are due.
    pub(crate) fn letters_turn(&mut self, inputs: &mut Inputs<'_>) {
        while self.letters.have_room()
            && let Some(key) = self.open.next_lettered()
        {
            let settings = self.config(inputs, &key.group_id).settings;
            let taken = self.open.take_letters(&key, &settings);
            let Some(Taken { letters, opening, address }) = taken else { continue };
            for letter in letters {
                self.letters.add(Delivery {
                    key: key.clone(),
                    opening,
                    address,
                    letter,
                    next: letter.first,
                    most: i64::MAX,
                    failed: 0,
                    failed_reads: 0,
                    step: Step::At(inputs.times.now),
                });
            }
        }
        if self.letters.are_none() {
            return;
        }
        for group in self.letters.schedule.due(inputs.times.now) {
            let step = self.letters.first_of(&group).map(|it| &it.step);
            match step {
                Some(Step::At(_)) => self.begin_letter(inputs, &group),
                // The controller or the queue's shard did not answer in time. It may have handled
                // the message nevertheless.
                Some(Step::Creating(..) | Step::Sent { .. } | Step::Reading(_)) | None => {
                    self.letter_failed(inputs, &group, ErrorCode::RequestTimedOut);
                }
            }
        }
    }

    /// Handles the batches that partitions of this shard have appended or refused. Returns whether
    /// there were any.
    pub(crate) fn letters_appended(&mut self, inputs: &mut Inputs<'_>) -> bool {
        let appended = std::mem::take(&mut self.letters.appended);
        let is_idle = appended.is_empty();
        for (number, end) in appended {
            let Some((to, number)) = self.letters.appending.remove(&number) else { continue };
            let added = DeadLettersAdded { number, end };
            if to == self.shard {
                self.letters_added(inputs, &added);
            } else {
                self.letters.outbox.push((to, ToShares::DeadLettersAdded(added)));
            }
        }
        !is_idle
    }

    /// Appends a batch from a shard to a queue that this shard leads.
    pub(crate) fn append_letters(&mut self, inputs: &mut Inputs<'_>, letters: &DeadLetters) {
        let number = self.letters.next_number(self.first_number);
        self.letters.appending.insert(number, (letters.from, letters.number));
        let id = PartitionId { topic: letters.topic_id, index: letters.partition };
        let letters = NewLetters {
            number,
            wall: inputs.times.wall,
            address: letters.address,
            id,
            batch: &letters.batch,
        };
        inputs.partitions.append_letters(letters, inputs.effects);
    }

    /// Handles the answer of the leader of a queue.
    pub(crate) fn letters_added(&mut self, inputs: &mut Inputs<'_>, added: &DeadLettersAdded) {
        let Some(group) = self.letters.take_awaited(added.number) else { return };
        let Some(delivery) = self.letters.first_of(&group) else { return };
        let Step::Sent { upto, .. } = delivery.step else { return };
        let count = upto - delivery.next + 1;
        let now = inputs.times.now;
        self.counters.dead_letter_requests_failed += u64::from(added.end != LettersEnd::Added);
        match added.end {
            LettersEnd::Added => {}
            LettersEnd::NoSpace => {
                return self.letters.set_step(&group, Step::At(now + NO_SPACE_MS));
            }
            LettersEnd::Refused(error) if is_of_size(error) && count > 1 => {
                delivery.most = count / 2;
                return self.letters.set_step(&group, Step::At(now));
            }
            LettersEnd::Refused(error) => return self.letter_failed(inputs, &group, error),
        }
        delivery.next = upto + 1;
        (delivery.failed, delivery.failed_reads) = (0, 0);
        let is_whole = upto >= delivery.letter.last;
        self.counters.dead_letters += count.unsigned_abs();
        if is_whole {
            self.letter_ended(&group);
        } else {
            self.letters.set_step(&group, Step::At(now));
        }
    }

    /// Handles the controller's answer to a request to create topics. Returns whether a letter
    /// waited for one of them.
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

    /// Called when the controller was not asked to create a topic. Either a creation failed
    /// recently, for the reason `failed`, or too many requests to the controller wait.
    pub(crate) fn topic_not_asked(
        &mut self,
        inputs: &mut Inputs<'_>,
        topic: &str,
        failed: Option<&str>,
    ) {
        for group in self.letters.awaiting_topic(topic) {
            match failed {
                Some(why) => self.drop_letter(inputs, &group, why),
                None => self.letters.set_step(&group, Step::At(inputs.times.now + BACKOFF_MS)),
            }
        }
    }

    /// Whether there is mail, a wanted topic or a dropped letter to take.
    pub(crate) fn has_letters_to_take(&self) -> bool {
        !self.letters.are_settled()
    }

    /// Messages for other shards.
    pub(crate) fn take_mail(&mut self) -> Vec<(u32, ToShares)> {
        std::mem::take(&mut self.letters.outbox)
    }

    /// Topics that the controller has to create. [`Shares::topics_created`] gets the outcome.
    pub(crate) fn take_wanted_topics(&mut self) -> Vec<MissingTopic> {
        std::mem::take(&mut self.letters.wanted_topics)
    }

    /// Whether a letter has ended since changes were last written. If so, its records were archived
    /// by a change that has to be written.
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
        let Delivery { next, letter, failed_reads, .. } = *delivery;
        let (key, records) = (delivery.key.clone(), letter.last - letter.first + 1);
        if records > LETTER_RECORDS_MAX {
            let why = format!("there are {records}, and at most {LETTER_RECORDS_MAX} are sent");
            return self.drop_letter(inputs, group, &why);
        }
        let place = match queue::find(inputs, group, &name, key.partition) {
            Ok(Queue::There(place)) => place,
            Ok(Queue::Missing(topic)) => {
                let until = inputs.times.now + ANSWER_MS;
                self.letters.set_step(group, Step::Creating(name, until));
                return self.letters.wanted_topics.push(topic);
            }
            Err(why) => return self.drop_letter(inputs, group, &why),
        };
        if !copies || failed_reads > ATTEMPTS_MAX {
            return self.send_letter(inputs, group, &place, &Sources::default());
        }
        self.last_read += 1;
        let number = self.last_read;
        self.letters.set_step(group, Step::Reading(number));
        self.reads.insert(number, ReadFor::Letter(Arc::clone(group)));
        let read = RecordRead {
            reader: Reader::Share(number),
            id: PartitionId { topic: key.topic_id, index: key.partition },
            offset: next,
            reads_committed: false,
            max_bytes: READ_BYTES,
            first_whole: true,
        };
        inputs.partitions.read_records(read, inputs.effects);
    }

    /// Handles the end of a read of source records.
    pub(in crate::shares) fn letter_read(
        &mut self,
        inputs: &mut Inputs<'_>,
        group: &Arc<str>,
        number: u64,
        end: RecordReadEnd,
    ) {
        let name = Arc::clone(&self.config(inputs, group).dead_letter_topic);
        let Some(delivery) = self.letters.first_of(group) else { return };
        if !matches!(delivery.step, Step::Reading(reading) if reading == number) {
            return;
        }
        let (key, range) = (delivery.key.clone(), delivery.next..=delivery.letter.last);
        let place = match queue::find(inputs, group, &name, key.partition) {
            Ok(Queue::There(place)) => place,
            Ok(Queue::Missing(_)) | Err(_) => return self.begin_letter(inputs, group),
        };
        let sources = match end {
            RecordReadEnd::Records { data, .. } => sources(&data, &range, place.batch_bytes),
            RecordReadEnd::Failed => return self.read_failed(inputs, group),
            RecordReadEnd::Nothing | RecordReadEnd::Offset(_) => {
                Sources { records: Vec::new(), upto: before_log(inputs, &key, &range) }
            }
        };
        self.send_letter(inputs, group, &place, &sources);
    }

    /// Handles a failed read of source records: they are read again, or sent without copies after
    /// too many failures.
    fn read_failed(&mut self, inputs: &Inputs<'_>, group: &Arc<str>) {
        let Some(delivery) = self.letters.first_of(group) else { return };
        delivery.failed_reads += 1;
        let Delivery { key, next, letter, failed_reads, .. } = delivery;
        let wait = if *failed_reads > ATTEMPTS_MAX {
            let SharePartitionKey { topic_id, partition, .. } = key;
            tracing::warn!(
                target: "shares",
                "records {next} to {} of {topic_id}-{partition} cannot be read: their dead letters \
                 in share group {group:?} have no copies of them",
                letter.last
            );
            0
        } else {
            backoff_ms(*failed_reads)
        };
        self.letters.set_step(group, Step::At(inputs.times.now + wait));
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
        let Delivery { key, letter, next, most, address, .. } = delivery;
        let (address, last) = (*address, sources.upto.unwrap_or(letter.last));
        let id = key.topic_id.to_string();
        let source = inputs.image.topic_by_id(key.topic_id);
        let (batch, upto) = batch::batch(&Wanted {
            key,
            topic: source.map_or(&id, |topic| &topic.name),
            letter: *letter,
            first: *next,
            last: last.min(next.saturating_add(*most - 1)),
            copied: &sources.records,
            now: inputs.times.wall.0,
            batch_bytes: place.batch_bytes,
            max_bytes: place.max_bytes,
        });
        let until = inputs.times.now + ANSWER_MS;
        self.letters.set_step(group, Step::Sent { number, upto, until });
        self.letters.awaited.insert(number, Arc::clone(group));
        self.counters.dead_letter_requests += 1;
        let Place { topic_id, partition, leader, .. } = *place;
        let from = self.shard;
        let letters = DeadLetters { from, number, address, topic_id, partition, batch };
        if leader == self.shard {
            self.append_letters(inputs, &letters);
        } else {
            self.letters.outbox.push((leader, ToShares::DeadLetters(letters)));
        }
    }

    /// Handles a failed step of a letter: it is tried again if the failure may be temporary, or the
    /// letter is dropped.
    fn letter_failed(&mut self, inputs: &Inputs<'_>, group: &Arc<str>, error: ErrorCode) {
        let Some(delivery) = self.letters.first_of(group) else { return };
        delivery.failed += 1;
        let failed = delivery.failed;
        if is_retried(error) && failed <= ATTEMPTS_MAX {
            self.letters.set_step(group, Step::At(inputs.times.now + backoff_ms(failed)));
        } else {
            self.drop_letter(inputs, group, &format!("{error:?}"));
        }
    }

    fn drop_letter(&mut self, inputs: &Inputs<'_>, group: &Arc<str>, why: &str) {
        let Some(delivery) = self.letters.first_of(group) else { return };
        let Delivery { key, next, letter, .. } = delivery;
        let count = (letter.last - *next + 1).unsigned_abs();
        let source = inputs.image.topic_by_id(key.topic_id).map(|topic| Arc::clone(&topic.name));
        let source = source.unwrap_or_else(|| key.topic_id.to_string().into());
        let (next, last, partition) = (*next, letter.last, key.partition);
        let counted = &mut self.counters.dead_letters_dropped;
        *counted = counted.saturating_add(count);
        let dropped = &mut self.letters.dropped;
        if dropped.count == 0 {
            dropped.first = format!(
                "records {next} to {last} of {source}-{partition} in share group {group:?}: {why}"
            );
        }
        dropped.count = dropped.count.saturating_add(count);
        self.letter_ended(group);
    }

    /// Ends the current letter of a group, whether it was delivered or dropped. The letter's
    /// records are archived, and the group's next letter begins in the next turn.
    fn letter_ended(&mut self, group: &Arc<str>) {
        let Some(Delivery { key, opening, letter, .. }) = self.letters.take_first(group) else {
            return;
        };
        if self.letters.first_of(group).is_none() {
            // The share partitions of the group may have been kept only for their letters.
            self.left_groups.insert(Arc::clone(group));
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

/// Whether a smaller batch may be accepted.
fn is_of_size(error: ErrorCode) -> bool {
    matches!(error, ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge)
}

fn backoff_ms(failed: u32) -> i64 {
    (BACKOFF_MS << (failed - 1)).min(BACKOFF_MAX_MS)
}

/// The last offset of the range that is before the start of the log; None if there is none.
fn before_log(
    inputs: &Inputs<'_>,
    key: &SharePartitionKey,
    range: &RangeInclusive<i64>,
) -> Option<i64> {
    let topic = inputs.image.topic_by_id(key.topic_id)?;
    let (_, bounds) = inputs.partitions.share_partition(topic, key.partition).ok()?;
    (bounds.log_start > *range.start()).then(|| *range.end().min(&(bounds.log_start - 1)))
}
