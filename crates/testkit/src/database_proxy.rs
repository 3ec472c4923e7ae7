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

/// The fate of what a client has written to a database: a statement, mostly, or a step of
/// its login.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatementFate {
    /// It is answered.
    Pass,
    /// It is answered, this much later.
    Delay(Duration),
    /// The connection is cut, and the database never sees it.
    Lose,
    /// The database does as asked, and its answer is lost with the connection.
    LoseAnswer,
    /// The connection is cut in the middle of the answer.
    HalveAnswer,
    /// One bit of the answer is another: that of this number, counted on from its beginning
    /// again where it has fewer.
    FlipAnswer(usize),
}

type Judge = dyn Fn() -> StatementFate + Send + Sync;

/// A proxy in front of a database server, without TLS, which does to statements what
/// networks do. It takes nobody more once the value is gone.
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
    /// In front of the database at this address; all statements pass at first.
    ///
    /// # Errors
    /// There is no free port.
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

    /// Whom to connect to in place of the database.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// From now on, statements have the fate that this says of each.
    pub fn judge(&self, judge: impl Fn() -> StatementFate + Send + Sync + 'static) {
        *lock(&self.state.judge) = Arc::new(judge);
    }

    /// The number of statements that did not pass.
    pub fn struck(&self) -> u64 {
        self.state.struck.load(SeqCst)
    }
}

impl Drop for DatabaseProxy {
    fn drop(&mut self) {
        // Wakes whoever accepts, who then finds nobody.
        let _ = TcpStream::connect(self.address);
    }
}

fn accept(listener: &TcpListener, state: &Weak<State>) {
    for client in listener.incoming() {
        let (Ok(client), Some(state)) = (client, state.upgrade()) else {
            return;
        };
        if let Err(error) = Connection::begin(client, state) {
            eprintln!("in front of a database: {error}");
        }
    }
}

/// One client's connection, and the one to the database in its name.
struct Connection {
    client: TcpStream,
    database: TcpStream,
    /// The fate of the answer that comes next.
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

    /// From the client to the database.
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
                // What the test asked for: at least this long.
                StatementFate::Delay(time) => thread::sleep(time),
                StatementFate::Lose => return Ok(()),
                after => *lock(&self.answer) = after,
            }
            (&self.database).write_all(&bytes[..read])?;
        }
    }

    /// From the database to the client.
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
