//! Connections in memory.

/// A connection. The serial number distinguishes it from earlier connections of its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conn {
    pub(crate) slot: u32,
    serial: u32,
}

/// The client's end of a connection.
#[derive(Debug, Default)]
pub struct Socket {
    serial: u32,
    /// The bytes that the server has sent. The caller removes them when it has read them.
    pub received: Vec<u8>,
    /// The number of sent bytes for which the server has not got the completion yet.
    pub(crate) unsent: usize,
    pub(crate) is_paused: bool,
    /// Bytes that arrived while the server had paused receiving.
    pub(crate) held: Vec<u8>,
}

/// Open connections, by slot.
#[derive(Debug, Default)]
pub(crate) struct Sockets {
    open: Vec<Option<Socket>>,
    serial: u32,
}

impl Sockets {
    pub(crate) fn connect(&mut self, slot: u32) -> Conn {
        self.serial += 1;
        let serial = self.serial;
        if self.open.len() <= slot as usize {
            self.open.resize_with(slot as usize + 1, || None);
        }
        let open = &mut self.open[slot as usize];
        assert!(open.is_none(), "slot {slot} is not free");
        *open = Some(Socket { serial, ..Socket::default() });
        Conn { slot, serial }
    }

    pub(crate) fn get_mut(&mut self, conn: Conn) -> Option<&mut Socket> {
        let socket = self.open.get_mut(conn.slot as usize)?.as_mut()?;
        (socket.serial == conn.serial).then_some(socket)
    }

    pub(crate) fn get(&self, conn: Conn) -> Option<&Socket> {
        let socket = self.open.get(conn.slot as usize)?.as_ref()?;
        (socket.serial == conn.serial).then_some(socket)
    }

    pub(crate) fn remove(&mut self, conn: Conn) {
        if self.get(conn).is_some() {
            self.open[conn.slot as usize] = None;
        }
    }
}
