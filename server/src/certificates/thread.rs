//! The thread that loads certificates and token keys: its messages and its loop.
//!
//! It sends new keys and certificates to the mailboxes of the shards. Clients may have set
//! certificates for a shard. When the shard's image names new ones, the shard sends their settings
//! to the thread ([`CertificateOrder::Take`]), and gets the certificates in return.

use super::Certificates;
use crate::config::ShardTls;
use crate::event::CertificateOrder;
use crate::mailbox::Peer;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded, unbounded};
use muster_tls::Tls;
use std::io;
use std::sync::Arc;
use std::thread;

/// The channel to the thread. If no listener has TLS or tokens, there is no thread, and messages
/// are dropped.
#[derive(Debug, Clone)]
pub(crate) struct CertificateThread(Sender<Ask>);

pub(super) enum Ask {
    /// Load everything again.
    Reload,
    /// The mailboxes of all shards.
    Peers(Vec<Peer>),
    Order(CertificateOrder),
    /// A shard starts. The reply has the TLS of its listeners, including what clients have set.
    Begin {
        altered: ShardTls,
        reply: Sender<Arc<[Option<Tls>]>>,
    },
}

impl CertificateThread {
    /// Starts the thread, which runs until the process ends.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(super) fn start(certificates: Certificates) -> io::Result<Self> {
        let (sender, receiver) = unbounded();
        if certificates.are_needed() {
            let run = move || run(certificates, &receiver);
            thread::Builder::new().name("certificates".to_owned()).spawn(run)?;
        }
        Ok(Self(sender))
    }

    /// Makes the thread load everything again. Returns false if there is nothing to load.
    pub(crate) fn reload(&self) -> bool {
        self.0.send(Ask::Reload).is_ok()
    }

    pub(crate) fn set_peers(&self, peers: Vec<Peer>) {
        self.send(Ask::Peers(peers));
    }

    pub(crate) fn order(&self, order: CertificateOrder) {
        self.send(Ask::Order(order));
    }

    /// The TLS settings of a shard's listeners. None if clients have altered none of them, or if
    /// the thread does not run.
    pub(crate) fn begin(&self, altered: ShardTls) -> Option<Arc<[Option<Tls>]>> {
        if altered.replacements.is_empty() {
            return None;
        }
        let (reply, answer) = bounded(1);
        self.send(Ask::Begin { altered, reply });
        answer.recv().ok()
    }

    fn send(&self, ask: Ask) {
        // A send fails only if the thread does not run: then no listener needs it.
        let _ = self.0.send(ask);
    }
}

fn run(mut certificates: Certificates, receiver: &Receiver<Ask>) {
    loop {
        match receiver.recv_timeout(certificates.next_look()) {
            Ok(Ask::Reload) => certificates.look(true),
            Ok(Ask::Peers(peers)) => certificates.set_peers(peers),
            Ok(Ask::Order(CertificateOrder::Check { number, replacements })) => {
                certificates.check(number, &replacements);
            }
            Ok(Ask::Order(CertificateOrder::Take(altered))) => certificates.take(&altered),
            Ok(Ask::Begin { altered, reply }) => {
                certificates.take(&altered);
                // The send fails if the shard has given up its start. This does not matter.
                let _ = reply.send(certificates.listeners.of_shard(altered.shard));
            }
            Err(RecvTimeoutError::Timeout) => certificates.look(false),
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}
