//! Sends an answer in one piece: what is written within one turn of everybody leaves together.
//!
//! The HTTP/2 server writes the reply to a ping, the answer and its end one by one, and each would wake kubelet, which then takes the
//! processor from whoever has not finished the answer. So a flush is put off until all tasks that are ready have had their turn.

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// More than this is not held back.
const MOST: usize = 64 * 1024;

/// A stream whose writes are gathered; what is read passes as it is.
#[derive(Debug)]
pub(crate) struct Gathered<S> {
    stream: S,
    /// Written and not yet sent, from `sent` on.
    held: Vec<u8>,
    sent: usize,
    /// Whether the greeting is out. It goes at once: nobody flushes again before the peer has said something.
    greeted: bool,
    /// The turn until whose end a flush is put off.
    turn: Option<Arc<Turn>>,
}

/// A turn of everybody who is ready.
#[derive(Debug)]
struct Turn {
    over: AtomicBool,
    /// Who is told.
    task: Waker,
}

impl Turn {
    /// Begins one; the task is woken when it is over.
    fn begin(task: &Waker) -> Arc<Self> {
        let turn = Arc::new(Turn { over: AtomicBool::new(false), task: task.clone() });
        let waker = Waker::from(Arc::clone(&turn));
        // The runtime keeps the waker until then; the future itself has done its part.
        if pin!(tokio::task::yield_now()).poll(&mut Context::from_waker(&waker)).is_ready() {
            turn.over.store(true, Ordering::Relaxed);
        }
        turn
    }
}

impl Wake for Turn {
    fn wake(self: Arc<Self>) {
        self.over.store(true, Ordering::Relaxed);
        self.task.wake_by_ref();
    }
}

impl<S> Gathered<S> {
    /// Gathers what is written to an accepted stream.
    pub(crate) fn new(stream: S) -> Self {
        Gathered { stream, held: Vec::new(), sent: 0, greeted: false, turn: None }
    }
}

impl<S: AsyncWrite + Unpin> Gathered<S> {
    fn send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.sent < self.held.len() {
            let count = ready!(Pin::new(&mut self.stream).poll_write(context, &self.held[self.sent..]))?;
            if count == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.sent += count;
        }
        self.held.clear();
        self.sent = 0;
        self.turn = None;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gathered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gathered<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.held.len() >= MOST {
            ready!(this.send(context))?;
        }
        this.held.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.greeted && !this.held.is_empty() {
            let turn = this.turn.get_or_insert_with(|| Turn::begin(context.waker()));
            if !turn.over.load(Ordering::Relaxed) {
                return Poll::Ready(Ok(()));
            }
        }
        ready!(this.send(context))?;
        this.greeted = true;
        Pin::new(&mut this.stream).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        ready!(this.send(context))?;
        Pin::new(&mut this.stream).poll_shutdown(context)
    }
}

impl<S: Connected> Connected for Gathered<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use super::{Gathered, MOST};
    use std::future::poll_fn;
    use std::pin::Pin;
    use std::task::Poll;
    use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream};

    /// A stream that has greeted, and its peer that has heard it.
    async fn greeted(room: usize) -> (DuplexStream, Gathered<DuplexStream>) {
        let (mut peer, stream) = tokio::io::duplex(room);
        let mut stream = Gathered::new(stream);
        stream.write_all(b"hello").await.expect("taken");
        stream.flush().await.expect("sent");
        assert_eq!(arrived(&mut peer).await, b"hello", "a greeting goes at once");
        (peer, stream)
    }

    /// What the peer has been sent and not read yet.
    async fn arrived(peer: &mut DuplexStream) -> Vec<u8> {
        let mut bytes = vec![0; 2 * MOST];
        let read = async { peer.read(&mut bytes).await.expect("a read") };
        let count = tokio::select! { biased; count = read => count, () = std::future::ready(()) => 0 };
        bytes.truncate(count);
        bytes
    }

    #[tokio::test]
    async fn what_is_written_in_one_turn_leaves_together() {
        let (mut peer, mut stream) = greeted(2 * MOST).await;
        for round in 0..3 {
            for piece in [&b"ping "[..], b"answer ", b"end"] {
                stream.write_all(piece).await.expect("taken");
                stream.flush().await.expect("put off");
                assert_eq!(arrived(&mut peer).await, b"", "round {round}");
            }
            tokio::task::yield_now().await;
            stream.flush().await.expect("sent");
            assert_eq!(arrived(&mut peer).await, b"ping answer end", "round {round}");
        }
    }

    /// Nothing but the end of the turn wakes this task, and what another task that was ready had to say came first.
    #[tokio::test]
    async fn the_end_of_the_turn_wakes_whoever_flushed() {
        let (mut peer, mut stream) = greeted(MOST).await;
        let said = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
        let saying = std::sync::Arc::clone(&said);
        tokio::spawn(async move { saying.store(true, std::sync::atomic::Ordering::Relaxed) });
        let mut polls = 0;
        poll_fn(|context| {
            polls += 1;
            if polls == 1 {
                assert!(Pin::new(&mut stream).poll_write(context, b"answer").is_ready());
            }
            assert!(Pin::new(&mut stream).poll_flush(context).is_ready());
            if polls == 1 { Poll::Pending } else { Poll::Ready(()) }
        })
        .await;
        assert!(said.load(std::sync::atomic::Ordering::Relaxed));
        assert_eq!(arrived(&mut peer).await, b"answer");
    }

    #[tokio::test]
    async fn nothing_is_lost_or_reordered_through_a_narrow_pipe() {
        let sent: Vec<u8> = (0..3 * MOST).map(|place| (place % 251) as u8).collect();
        let (mut peer, stream) = tokio::io::duplex(1_000);
        let mut stream = Gathered::new(stream);
        let pieces = sent.clone();
        let writing = tokio::spawn(async move {
            for piece in pieces.chunks(777) {
                stream.write_all(piece).await.expect("taken");
                stream.flush().await.expect("flushed");
            }
            stream.shutdown().await.expect("ended");
        });
        let mut seen = Vec::new();
        peer.read_to_end(&mut seen).await.expect("all of it");
        writing.await.expect("a task");
        assert!(seen == sent, "{} of {} bytes", seen.len(), sent.len());
    }
}
