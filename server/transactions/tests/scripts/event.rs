//! Converts a line of a script to a request or a message.

use muster_codec::messages::*;
use muster_transactions::message::{OpenIn, Producer, Question, QuestionKind, Report};
use muster_transactions::{PartitionSet, Request};

/// The words of a line: a verb, plain words, and options of the form `key=value`.
pub struct Line<'l> {
    pub verb: &'l str,
    pub words: Vec<&'l str>,
    options: Vec<(&'l str, &'l str)>,
}

impl<'l> Line<'l> {
    pub fn parse(line: &'l str) -> Self {
        let mut words = line.split_whitespace();
        let verb = words.next().unwrap();
        let (options, words): (Vec<_>, Vec<_>) = words.partition(|word| word.contains('='));
        let options = options.into_iter().map(|word| word.split_once('=').unwrap()).collect();
        Self { verb, words, options }
    }

    pub fn option(&self, key: &str) -> Option<&'l str> {
        self.options.iter().find(|(it, _)| *it == key).map(|(_, value)| *value)
    }

    pub fn options(&self) -> impl Iterator<Item = (&'l str, &'l str)> {
        self.options.iter().copied()
    }

    fn number<T: std::str::FromStr>(&self, key: &str, default: T) -> T
    where
        T::Err: std::fmt::Debug,
    {
        self.option(key).map_or(default, |value| value.parse().unwrap())
    }

    pub fn has(&self, word: &str) -> bool {
        self.words.contains(&word)
    }

    /// The id in the first word. `-` is the empty id.
    pub fn id(&self) -> &'l str {
        self.words.first().copied().filter(|it| *it != "-").unwrap_or_default()
    }

    /// The producer, from a word like `1000/3`.
    pub fn producer(&self) -> Option<Producer> {
        self.words.iter().find_map(|word| producer(word))
    }

    /// The partitions, from words like `t-0`.
    pub fn partitions(&self) -> PartitionSet {
        self.words.iter().filter_map(|word| partition(word)).collect()
    }

    fn topics(&self) -> Vec<AddPartitionsToTxnTopic<'static>> {
        let partitions = self.partitions();
        let topics = partitions.topics().map(|(topic, partitions)| AddPartitionsToTxnTopic {
            name: topic.to_owned().into(),
            partitions: partitions.to_vec(),
        });
        topics.collect()
    }

    /// The request in a line, with its version. None if the verb is not a request.
    pub fn request(&self) -> Option<(i16, Request<'static>)> {
        let id = || self.id().to_owned().into();
        let who = self.producer().unwrap_or(Producer { id: -1, epoch: -1 });
        Some(match self.verb {
            "init" => {
                let request = InitProducerIdRequest {
                    transactional_id: (self.id() != "none").then(id),
                    transaction_timeout_ms: self.number("timeout", 60_000),
                    producer_id: who.id,
                    producer_epoch: who.epoch,
                    enable2_pc: self.has("two-phase"),
                    keep_prepared_txn: self.has("keep"),
                };
                (self.number("v", 5), request.into())
            }
            "add" => {
                let version = self.number("v", 3);
                (version, self.add(version, who).into())
            }
            "offsets" => {
                let group_id = self.words.last().copied().unwrap_or_default().to_owned().into();
                let request = AddOffsetsToTxnRequest {
                    transactional_id: id(),
                    producer_id: who.id,
                    producer_epoch: who.epoch,
                    group_id,
                };
                (self.number("v", 4), request.into())
            }
            "end" => {
                let request = EndTxnRequest {
                    transactional_id: id(),
                    producer_id: who.id,
                    producer_epoch: who.epoch,
                    committed: self.has("commit"),
                };
                (self.number("v", 5), request.into())
            }
            "list" => (2, self.list().into()),
            "describe" => {
                let transactional_ids =
                    self.words.iter().map(|it| it.replace('-', "").into()).collect();
                (0, DescribeTransactionsRequest { transactional_ids }.into())
            }
            _ => return None,
        })
    }

    fn add(&self, version: i16, who: Producer) -> AddPartitionsToTxnRequest<'static> {
        let id = || self.id().to_owned().into();
        if version >= 4 {
            let transaction = AddPartitionsToTxnTransaction {
                transactional_id: id(),
                producer_id: who.id,
                producer_epoch: who.epoch,
                verify_only: self.has("verify"),
                topics: self.topics(),
            };
            let times = self.number("times", 1);
            let transactions = vec![transaction; times];
            return AddPartitionsToTxnRequest { transactions, ..Default::default() };
        }
        AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: id(),
            v3_and_below_producer_id: who.id,
            v3_and_below_producer_epoch: who.epoch,
            v3_and_below_topics: self.topics(),
            ..Default::default()
        }
    }

    fn list(&self) -> ListTransactionsRequest<'static> {
        let words = |key: &str| {
            let value = self.option(key).unwrap_or_default();
            value.split(',').filter(|it| !it.is_empty()).map(str::to_owned).collect::<Vec<_>>()
        };
        ListTransactionsRequest {
            state_filters: words("states").into_iter().map(Into::into).collect(),
            producer_id_filters: words("pids").iter().map(|it| it.parse().unwrap()).collect(),
            duration_filter: self.number("duration", -1),
            transactional_id_pattern: self.option("pattern").map(|it| it.to_owned().into()),
        }
    }

    /// The question of a line like `ask 0 t 1000/0 a-0`: slot 0 asks about id t.
    pub fn question(&self, number: u64) -> Question {
        Question {
            slot: self.words[0].parse().unwrap(),
            number,
            transactional_id: self.words[1].into(),
            producer: self.producer().unwrap(),
            partitions: self.partitions(),
            kind: if self.has("verify") { QuestionKind::Verify } else { QuestionKind::Add },
        }
    }

    /// The report of a line like `report 0 1000/0:a-0`.
    pub fn report(&self, coordinator_epoch: i32) -> Report {
        let open = self.words[1..].iter().filter_map(|word| {
            let (who, at) = word.split_once(':')?;
            let (topic, partition) = partition(at)?;
            Some(OpenIn { producer: producer(who)?, topic: topic.into(), partition })
        });
        Report {
            slot: self.words[0].parse().unwrap(),
            session: self.number("session", 1),
            coordinator_epoch,
            number: 0,
            may_have_lost_writes: self.has("lost"),
            is_whole: !self.has("offline"),
            open: open.collect(),
        }
    }
}

fn producer(word: &str) -> Option<Producer> {
    let (id, epoch) = word.split_once('/')?;
    Some(Producer { id: id.parse().ok()?, epoch: epoch.parse().ok()? })
}

fn partition(word: &str) -> Option<(&str, i32)> {
    let (topic, partition) = word.rsplit_once('-')?;
    Some((topic, partition.parse().ok()?)).filter(|(topic, _)| !topic.is_empty())
}
