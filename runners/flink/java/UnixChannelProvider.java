package ldpbeam;

import java.net.SocketAddress;
import java.util.Collection;
import java.util.Collections;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.ChannelCredentials;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.ManagedChannelProvider;
import org.apache.beam.vendor.grpc.v1p69p0.io.grpc.netty.NettyChannelBuilder;
import org.apache.beam.vendor.grpc.v1p69p0.io.netty.channel.EventLoopGroup;
import org.apache.beam.vendor.grpc.v1p69p0.io.netty.channel.epoll.EpollDomainSocketChannel;
import org.apache.beam.vendor.grpc.v1p69p0.io.netty.channel.epoll.EpollEventLoopGroup;
import org.apache.beam.vendor.grpc.v1p69p0.io.netty.channel.unix.DomainSocketAddress;
import org.apache.beam.vendor.grpc.v1p69p0.io.netty.util.concurrent.DefaultThreadFactory;

/**
 * Connects Beam to {@code unix:///path} too: gRPC can, but where no credentials are named it asks
 * the one provider that comes first, and that is the one for TCP.
 */
public final class UnixChannelProvider extends ManagedChannelProvider {
  // One more than that of the provider for TCP.
  private static final int FIRST = 6;

  private static final EventLoopGroup CONNECTED =
      new EpollEventLoopGroup(0, new DefaultThreadFactory("ldpbeam-connected", true));

  @Override
  protected boolean isAvailable() {
    return true;
  }

  @Override
  protected int priority() {
    return FIRST;
  }

  @Override
  protected NettyChannelBuilder builderForAddress(String name, int port) {
    return NettyChannelBuilder.forAddress(name, port);
  }

  @Override
  protected NettyChannelBuilder builderForTarget(String target) {
    NettyChannelBuilder builder = NettyChannelBuilder.forTarget(target);
    if (target.startsWith("unix:")) {
      builder
          .channelType(EpollDomainSocketChannel.class, DomainSocketAddress.class)
          .eventLoopGroup(CONNECTED);
    }
    return builder;
  }

  @Override
  protected NewChannelBuilderResult newChannelBuilder(
      String target, ChannelCredentials credentials) {
    return NewChannelBuilderResult.error("for channels without credentials");
  }

  @Override
  protected Collection<Class<? extends SocketAddress>> getSupportedSocketAddressTypes() {
    return Collections.singleton(DomainSocketAddress.class);
  }
}
