//! The splitting of a byte stream into frames. Input: how the bytes are cut into pieces; the bytes
//! of a connection.
//!
//! Property: the server's answers do not depend on the pieces.

use crate::memory::within;
use crate::world::World;

const GRANTED_BYTES: usize = 32 << 20;
const PIECES_MAX: usize = 64;

pub fn run(input: &[u8]) {
    let Some((cuts, rest)) = input.split_first() else { return };
    let Some((cuts, bytes)) = rest.split_at_checked((*cuts).into()) else { return };
    within(GRANTED_BYTES, || {
        let whole = sent(&[bytes]);
        let pieces = sent(&cut(bytes, cuts));
        assert_eq!(pieces, whole, "in pieces and as a whole");
    });
}

/// Cuts the bytes into pieces of these lengths, which are repeated as needed.
fn cut<'a>(mut bytes: &'a [u8], lengths: &[u8]) -> Vec<&'a [u8]> {
    let mut pieces = Vec::new();
    let mut lengths = lengths.iter().cycle().map(|length| usize::from(*length).max(1));
    while pieces.len() < PIECES_MAX && !bytes.is_empty() {
        let length = lengths.next().unwrap_or(1).min(bytes.len());
        let (piece, rest) = bytes.split_at(length);
        pieces.push(piece);
        bytes = rest;
    }
    pieces.push(bytes);
    pieces
}

/// Returns the bytes that the server sends until it needs a file operation, and the time. If the
/// server closes the connection, the bytes are None.
fn sent(pieces: &[&[u8]]) -> (Option<Vec<u8>>, i64) {
    let mut world = World::new(&["socket.request.max.bytes=100000"]);
    world.open(0);
    pieces.iter().for_each(|piece| world.receive(0, piece));
    let connection = world.connections.get_mut(&0);
    (connection.map(|connection| std::mem::take(&mut connection.received)), world.now)
}
