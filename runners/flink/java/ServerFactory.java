package org.apache.beam.sdk.fn.server;

import java.io.IOException;
import java.nio.file.Path;
import java.nio.file.Paths;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.apache.beam.model.pipeline.v1.Endpoints.ApiServiceDescriptor;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.BindableService;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.Server;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.ServerInterceptors;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.netty.NettyServerBuilder;
import org.apache.beam.vendor.grpc.v1p69p0.io.netty.channel.EventLoopGroup;
import org.apache.beam.vendor.grpc.v1p69p0.io.netty.channel.epoll.EpollEventLoopGroup;
import org.apache.beam.vendor.grpc.v1p69p0.io.netty.channel.epoll.EpollServerDomainSocketChannel;
import org.apache.beam.vendor.grpc.v1p69p0.io.netty.channel.unix.DomainSocketAddress;
import org.apache.beam.vendor.grpc.v1p69p0.io.netty.util.concurrent.DefaultThreadFactory;

/**
 * Takes the place of Beam's class of this name, whose gRPC servers listen on every interface of the
 * machine and serve whoever connects.
 *
 * <p>These listen on Unix sockets in the folder that the system property {@code ldpbeam.sockets}
 * names. Whoever started this process has made that folder, and made it their own (mode 0700), so
 * the kernel lets no other account connect.
 */
public abstract class ServerFactory {
  private static final String SOCKETS = "ldpbeam.sockets";

  // Beam's workers ask every 20 seconds whether the connection still stands.
  private static final int KEEP_ALIVE_SECONDS = 20;

  // A task manager has six servers for each Python worker; they share these threads.
  private static final EventLoopGroup ACCEPTING =
      new EpollEventLoopGroup(1, new DefaultThreadFactory("ldpbeam-accepting", true));
  private static final EventLoopGroup SERVING =
      new EpollEventLoopGroup(0, new DefaultThreadFactory("ldpbeam-serving", true));

  private static final AtomicInteger CREATED = new AtomicInteger();

  public static ServerFactory createDefault() {
    return new PrivateSockets();
  }

  public static ServerFactory createWithUrlFactory(UrlFactory ignored) {
    return new PrivateSockets();
  }

  public static ServerFactory createWithPortSupplier(Supplier<Integer> ignored) {
    return new PrivateSockets();
  }

  public static ServerFactory createWithUrlFactoryAndPortSupplier(
      UrlFactory ignored, Supplier<Integer> alsoIgnored) {
    return new PrivateSockets();
  }

  /** Creates a server at an address of its own choice, which it writes into the descriptor. */
  public abstract Server allocateAddressAndCreate(
      List<BindableService> services, ApiServiceDescriptor.Builder descriptor) throws IOException;

  /** Creates a server at the address of the descriptor. */
  public abstract Server create(List<BindableService> services, ApiServiceDescriptor descriptor)
      throws IOException;

  /** How the address of a TCP server is written; no server here has one. */
  @FunctionalInterface
  public interface UrlFactory {
    String createUrl(String address, int port);

    static UrlFactory createDefault() {
      return (address, port) -> address + ":" + port;
    }
  }

  private static final class PrivateSockets extends ServerFactory {
    private static final String SCHEME = "unix://";

    @Override
    public Server allocateAddressAndCreate(
        List<BindableService> services, ApiServiceDescriptor.Builder descriptor)
        throws IOException {
      Path socket = folder().resolve(Integer.toString(CREATED.getAndIncrement()));
      descriptor.setUrl(SCHEME + socket);
      return create(services, descriptor.build());
    }

    @Override
    public Server create(List<BindableService> services, ApiServiceDescriptor descriptor)
        throws IOException {
      String url = descriptor.getUrl();
      if (!url.startsWith(SCHEME)) {
        throw new IllegalArgumentException(url + ": servers listen on Unix sockets alone");
      }
      NettyServerBuilder builder =
          NettyServerBuilder.forAddress(new DomainSocketAddress(url.substring(SCHEME.length())))
              .channelType(EpollServerDomainSocketChannel.class)
              .bossEventLoopGroup(ACCEPTING)
              .workerEventLoopGroup(SERVING)
              .maxInboundMessageSize(Integer.MAX_VALUE)
              .permitKeepAliveTime(KEEP_ALIVE_SECONDS, TimeUnit.SECONDS);
      for (BindableService service : services) {
        // Beam's services learn from the header which worker calls.
        builder.addService(
            ServerInterceptors.intercept(service, GrpcContextHeaderAccessorProvider.interceptor()));
      }
      return builder.build().start();
    }

    private static Path folder() {
      String named = System.getProperty(SOCKETS);
      if (named == null) {
        throw new IllegalStateException("-D" + SOCKETS + " names no folder for sockets");
      }
      return Paths.get(named).toAbsolutePath();
    }
  }
}
