//! Makes kubelet's requests acceptable: `:authority` becomes `localhost` before the HTTP/2 server reads it.
//!
//! Kubelet dials a registration socket by its bare path, and its gRPC library then sends that path, percent-encoded, as
//! `:authority`. No URI allows `%` there, so the server resets the stream before any of our code is asked. Kubelets dial
//! the other sockets by path as well in some versions, so every socket that kubelet dials gets this filter.

mod frames;
mod hpack;

use frames::Frames;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// How much is read from the stream at once.
const CHUNK: usize = 8 * 1024;

/// A stream whose requests all go to `localhost`; what is written passes as it is.
#[derive(Debug)]
pub struct LocalAuthority<S> {
    stream: S,
    frames: Frames,
    /// Filtered and not yet read, from `given` on.
    filtered: Vec<u8>,
    given: usize,
}

impl<S> LocalAuthority<S> {
    /// Filters what comes out of an accepted stream.
    pub fn new(stream: S) -> Self {
        LocalAuthority { stream, frames: Frames::default(), filtered: Vec::new(), given: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LocalAuthority<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let mut ended = false;
        while this.given == this.filtered.len() && !ended {
            this.filtered.clear();
            this.given = 0;
            let mut bytes = [0; CHUNK];
            let mut chunk = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.stream).poll_read(context, &mut chunk))?;
            ended = chunk.filled().is_empty();
            if ended {
                this.frames.finish(&mut this.filtered);
            } else {
                this.frames.push(chunk.filled(), &mut this.filtered);
            }
        }
        let waiting = &this.filtered[this.given..];
        let taken = waiting.len().min(buffer.remaining());
        buffer.put_slice(&waiting[..taken]);
        this.given += taken;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LocalAuthority<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

impl<S: Connected> Connected for LocalAuthority<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

#[cfg(test)]
mod tests {
    use super::LocalAuthority;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const SENT: &[u8] = b"\0\0\x13\x01\x04\0\0\0\x01\x83\x41\x0f%2Fa%2Freg.sock\x86";
    const SEEN: &[u8] = b"\0\0\x0d\x01\x04\0\0\0\x01\x83\x41\x09localhost\x86";

    /// What the server reads, in small pieces, from a peer that sends some bytes and hangs up.
    async fn read(sent: Vec<u8>, piece: usize) -> Vec<u8> {
        let (mut peer, stream) = tokio::io::duplex(piece);
        let sending = tokio::spawn(async move { peer.write_all(&sent).await });
        let (mut filtered, mut seen) = (LocalAuthority::new(stream), Vec::new());
        let mut buffer = vec![0; piece];
        loop {
            let count = filtered.read(&mut buffer).await.expect("a piece");
            if count == 0 {
                break;
            }
            seen.extend_from_slice(&buffer[..count]);
        }
        sending.await.expect("a task").expect("sent");
        seen
    }

    #[tokio::test]
    async fn a_reader_sees_localhost_however_small_its_buffer() {
        for piece in 1..80 {
            let seen = read([PREFACE, SENT, SENT].concat(), piece).await;
            assert_eq!(seen, [PREFACE, SEEN, SEEN].concat(), "{piece} bytes at once");
        }
    }

    #[tokio::test]
    async fn a_frame_cut_short_by_the_end_is_handed_on() {
        for end in 0..SENT.len() {
            let sent = [PREFACE, &SENT[..end]].concat();
            assert_eq!(read(sent.clone(), 7).await, sent, "{end} bytes of the frame");
        }
    }
}
