//! Producers with random answers at random times.

use super::*;

/// Error codes for the answers. After some a producer retries, after others it aborts or ends,
/// depending on the request.
const ERRORS: [i16; 10] = [6, 14, 15, 16, 51, 51, 59, 120, 120, 47];

/// A random answer to a request, of the same API.
fn random_answer(outgoing: &Outgoing, random: &mut fastrand::Rng) -> Response {
    let error = if random.u8(0..4) > 0 { 0 } else { *random.choice(&ERRORS).unwrap() };
    let epoch = if error == 0 { random.i16(0..9) } else { -1 };
    match &outgoing.request {
        Request::FindCoordinator(_) => found(9000 + random.i32(0..2)),
        Request::Metadata(_) if random.bool() => Response::Metadata(MetadataResponse::default()),
        Request::Metadata(_) => metadata(),
        Request::InitProducerId(_) => identity(error, epoch),
        Request::Produce(_) => {
            let some: Vec<i32> = (0..4).filter(|_| random.u8(0..8) > 0).collect();
            produced(error, &some)
        }
        Request::EndTxn(_) => ended(error, epoch),
        Request::AddPartitionsToTxn(_) => {
            let result = AddPartitionsToTxnPartitionResult::default();
            let topic = AddPartitionsToTxnTopicResult::default()
                .with_results_by_partition(vec![result.with_partition_error_code(error)]);
            let response = AddPartitionsToTxnResponse::default();
            Response::AddPartitionsToTxn(response.with_results_by_topic_v3_and_below(vec![topic]))
        }
        Request::AddOffsetsToTxn(_) => {
            Response::AddOffsetsToTxn(AddOffsetsToTxnResponse::default().with_error_code(error))
        }
        Request::TxnOffsetCommit(_) => {
            let partition = TxnOffsetCommitResponsePartition::default().with_error_code(error);
            let topic = TxnOffsetCommitResponseTopic::default().with_partitions(vec![partition]);
            let response = TxnOffsetCommitResponse::default();
            Response::TxnOffsetCommit(response.with_topics(vec![topic]))
        }
        other => panic!("producers do not send {other:?}"),
    }
}

fn random_plan(random: &mut fastrand::Rng) -> MemberPlan {
    let version = if random.bool() { TransactionVersion::One } else { TransactionVersion::Two };
    let aborts = 300_000;
    let plan = TransactionPlan { offsets: random.u32(0..2), aborts, ..transactions(version) };
    let delivery = match random.u8(0..6) {
        0 => Delivery::Plain,
        1 => Delivery::Idempotent,
        _ => Delivery::Transactions(plan),
    };
    let rate = random.bool().then(|| random.f64() * 50.0 + 1.0);
    producer(delivery, &[0, 1, 2, 3], Load { rate, partitions: random.u32(0..4), ..CLOSED })
}

/// A producer never panics. While it has work, it always has a deadline or waits for an answer. It
/// has at most one EndTxn in flight.
#[test]
fn random_answers_and_failures() {
    let (mut committed, mut aborted, mut fatal) = (0, 0, 0);
    for seed in 0..150 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut story = Story::new(random_plan(&mut random));
        story.start();
        for _ in 0..300 {
            random_step(&mut story, &mut random);
            let next = story.member.deadline();
            assert!(next.is_none_or(|next| next > story.now), "{next:?} with seed {seed}");
            let awake = next.is_some() || !story.sent.is_empty() || story.member.is_done();
            assert!(awake, "asleep with seed {seed}");
            let ends = |request: &&Request| matches!(request, Request::EndTxn(_));
            assert!(story.requests().into_iter().filter(ends).count() <= 1, "seed {seed}");
        }
        for event in story.events() {
            match event {
                EventKind::TransactionEnded { committed: true, .. } => committed += 1,
                EventKind::TransactionEnded { committed: false, .. } => aborted += 1,
                EventKind::Failed { .. } => fatal += 1,
                _ => {}
            }
        }
    }
    assert!(committed > 100 && aborted > 100 && fatal > 10, "{committed} {aborted} {fatal}");
}

fn random_step(story: &mut Story, random: &mut fastrand::Rng) {
    match random.u8(0..60) {
        0 => story.stop(Stop::Leave),
        1 => story.stop(Stop::Crash),
        2 => story.start(),
        3..20 => {
            let end = story.now + Duration::from_micros(random.u64(0..200_000));
            story.until(end);
        }
        _ if story.sent.is_empty() => {
            let end = story.now + Duration::from_secs(2);
            story.until(end);
        }
        _ => {
            let at = random.usize(0..story.sent.len());
            let (_, outgoing) = story.sent.swap_remove(at);
            let outcome = match random.u8(0..12) {
                0 => Err(Failure::Disconnected),
                1 => Err(Failure::TimedOut),
                _ => Ok(random_answer(&outgoing, random)),
            };
            let sent = story.now;
            story.now = story.now + Duration::from_micros(random.u64(0..50_000));
            story.hear(&outgoing, sent, story.now, outcome);
        }
    }
}
