use std::{
    fmt,
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU64, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use anyhow::Result;

/// The treatment of data that a client sends to a database: usually a statement, or a step of its
/// login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementFate {
    /// The proxy forwards the statement.
    Pass,
    /// The proxy forwards the statement after this delay.
    Delay(Duration),
    /// The proxy closes the connection without forwarding the statement.
    Lose,
    /// The database executes the statement, and the proxy closes the connection without forwarding
    /// the response.
    LoseAnswer,
    /// The proxy closes the connection in the middle of the response.
    HalveAnswer,
    /// The proxy flips the bit with this number in the response, modulo the length of the response.
    FlipAnswer(usize),
}

type Judge = dyn Fn() -> StatementFate + Send + Sync;

/// A proxy in front of a database server, without TLS, that simulates network faults. The proxy
/// accepts no connections after the value is dropped.
pub struct DatabaseProxy {
    address: SocketAddr,
    state: Arc<State>,
}

struct State {
    database: SocketAddr,
    judge: Mutex<Arc<Judge>>,
    struck: AtomicU64,
}

impl fmt::Debug for DatabaseProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in front of {}", self.address, self.state.database)
    }
}

impl DatabaseProxy {
    /// Starts a proxy in front of the database at this address. Initially all statements pass.
    ///
    /// # Errors
    /// If there is no free port.
    pub fn start(database: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let address = listener.local_addr()?;
        let state = Arc::new(State {
            database,
            judge: Mutex::new(Arc::new(|| StatementFate::Pass)),
            struck: AtomicU64::new(0),
        });
        let weak = Arc::downgrade(&state);
        thread::spawn(move || accept(&listener, &weak));
        Ok(Self { address, state })
    }

    /// Returns the address to connect to in place of the database.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the function that selects the treatment of each statement.
    pub fn judge(&self, judge: impl Fn() -> StatementFate + Send + Sync + 'static) {
        *lock(&self.state.judge) = Arc::new(judge);
    }

    /// Returns the number of statements that did not pass.
    pub fn struck(&self) -> u64 {
        self.state.struck.load(SeqCst)
    }
}

impl Drop for DatabaseProxy {
    fn drop(&mut self) {
        // Wakes the accepting thread, which then ends.
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, state: &Weak<State>) {
    for client in listener.incoming() {
        let (Ok(client), Some(state)) = (client, state.upgrade()) else {
            return;
        };
        if let Err(error) = Connection::begin(client, state) {
            eprintln!("the proxy of a database failed: {error}");
        }
    }
}

/// The connection of one client, and the corresponding connection to the database.
struct Connection {
    client: TcpStream,
    database: TcpStream,
    /// The treatment of the next response.
    answer: Mutex<StatementFate>,
}

impl Connection {
    fn begin(client: TcpStream, state: Arc<State>) -> std::io::Result<()> {
        let database = TcpStream::connect(state.database)?;
        client.set_nodelay(true)?;
        database.set_nodelay(true)?;
        let connection = Arc::new(Self {
            client,
            database,
            answer: Mutex::new(StatementFate::Pass),
        });
        let other = connection.clone();
        thread::spawn(move || {
            let _ = connection.ask(&state);
            connection.cut();
        });
        thread::spawn(move || {
            let _ = other.answer();
            other.cut();
        });
        Ok(())
    }

    /// Forwards data from the client to the database.
    fn ask(&self, state: &State) -> std::io::Result<()> {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let read = (&self.client).read(&mut bytes)?;
            if read == 0 {
                return Ok(());
            }
            let fate = state.judge()();
            if fate != StatementFate::Pass {
                state.struck.fetch_add(1, SeqCst);
            }
            match fate {
                StatementFate::Pass => {}
                // The test requested a delay of at least this time.
                StatementFate::Delay(time) => thread::sleep(time),
                StatementFate::Lose => return Ok(()),
                after => *lock(&self.answer) = after,
            }
            (&self.database).write_all(&bytes[..read])?;
        }
    }

    /// Forwards data from the database to the client.
    fn answer(&self) -> std::io::Result<()> {
        let mut bytes = vec![0; 1 << 16];
        loop {
            let read = (&self.database).read(&mut bytes)?;
            if read == 0 {
                return Ok(());
            }
            let answer = &mut bytes[..read];
            match std::mem::replace(&mut *lock(&self.answer), StatementFate::Pass) {
                StatementFate::LoseAnswer => return Ok(()),
                StatementFate::HalveAnswer => return (&self.client).write_all(&answer[..read / 2]),
                StatementFate::FlipAnswer(bit) => answer[bit / 8 % read] ^= 1 << (bit % 8),
                StatementFate::Pass | StatementFate::Delay(_) | StatementFate::Lose => {}
            }
            (&self.client).write_all(answer)?;
        }
    }

    fn cut(&self) {
        let _ = self.client.shutdown(Shutdown::Both);
        let _ = self.database.shutdown(Shutdown::Both);
    }
}

impl State {
    fn judge(&self) -> Arc<Judge> {
        lock(&self.judge).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
