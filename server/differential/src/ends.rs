//! Waits until Kafka has written the markers of a transaction. It answers EndTxn before that, and
//! until then answers CONCURRENT_TRANSACTIONS to other requests.

use crate::wire::{Answer, Ask, Flaw, Side};
use muster_codec::messages::DescribeTransactionsRequest;
use muster_codec::{ErrorCode, Request};
use serde_json::Value;
use std::io;
use std::thread::sleep;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(1);

/// Waits until the transaction that a request may have ended is complete.
///
/// # Errors
/// The transaction is still not complete after a long time, or the server cannot be reached.
pub fn await_end(side: &Side, ask: &Ask) -> io::Result<()> {
    let id = match &ask.request {
        Request::EndTxn(body) => &body.transactional_id,
        Request::InitProducerId(body) => body.transactional_id.as_deref().unwrap_or_default(),
        _ => "",
    };
    if id.is_empty() {
        return Ok(());
    }
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        if !is_ending(side, id)? {
            return Ok(());
        }
        sleep(PAUSE);
    }
    Err(io::Error::other(format!("{id}: {} does not complete its transaction", side.address())))
}

fn is_ending(side: &Side, id: &str) -> io::Result<bool> {
    let transactional_ids = vec![id.to_owned().into()];
    let request = DescribeTransactionsRequest { transactional_ids };
    let ask = Ask { version: 0, request: request.into(), flaw: Flaw::None };
    let Answer::Body(body) = side.call(&ask)? else { return Ok(false) };
    let state = &body["DescribeTransactions"]["transactionStates"][0]["transactionState"];
    Ok(state.as_str().is_some_and(|state| state.starts_with("Prepare")))
}

/// The timeout of transactions that the client leaves open until they time out. Once such a
/// transaction has records, only DescribeTransactions is sent until it has timed out.
pub const SHORT_TIMEOUT_MS: i32 = 2_000;

/// Whether an answer shows a transaction with the short timeout that has not ended yet.
pub fn runs_out(answer: &Answer) -> bool {
    let Answer::Body(body) = answer else { return false };
    let states = body["DescribeTransactions"]["transactionStates"].as_array();
    states.into_iter().flatten().any(|it| {
        let is_open = it["transactionState"] == "Ongoing";
        let is_ending = it["transactionState"].as_str().is_some_and(|it| it.starts_with("Prepare"));
        it["transactionTimeoutMs"] == SHORT_TIMEOUT_MS && (is_open || is_ending)
    })
}

/// Whether a request was refused because its transaction was still ending. It must be sent again.
pub fn is_concurrent(answer: &Answer) -> bool {
    matches!(answer, Answer::Body(body) if has_error(body, ErrorCode::ConcurrentTransactions))
}

fn has_error(value: &Value, error: ErrorCode) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, value)| {
            name.ends_with("rrorCode") && *value == error.code() || has_error(value, error)
        }),
        Value::Array(list) => list.iter().any(|element| has_error(element, error)),
        _ => false,
    }
}
